// y[i] = a x[i - 1] + b x[i] + c x[i + 1], with zeros beyond the borders.
#include "tile.cuh"

// Also the backward as a reader would derive it, with a and c exchanged: grad_x[i] gathers what three threads of the
// scattered form add to it, and has one writer.
extern "C" __global__ void __launch_bounds__(BLOCK)
    forward(const Element* x, Number a, Number b, Number c, Element* y, Index count) {
  const bool inside = blockIdx.x > 0 && blockIdx.x + 1 < gridDim.x;
  if (!is_full(count)) {
    remainder(count, [&](Index i) {
      const Number left = i > 0 ? Number(load_one(x + i - 1)) : Number(0);
      const Number right = i + 1 < count ? Number(load_one(x + i + 1)) : Number(0);
      y[i] = rounded(a * left + b * Number(load_one(x + i)) + c * right);
    });
    return;
  }
  Vector<Element> centre[UNROLL];
  Number left[UNROLL], right[UNROLL];
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    const Index i = place(u);
    centre[u] = load(x + i);
    left[u] = inside || i > 0 ? Number(load_one(x + i - 1)) : Number(0);
    right[u] = inside || i + WIDTH < count ? Number(load_one(x + i + WIDTH)) : Number(0);
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    Vector<Element> result;
#pragma unroll
    for (Index w = 0; w < WIDTH; ++w) {
      const Number before = w == 0 ? left[u] : Number(centre[u].at[w == 0 ? 0 : w - 1]);
      const Number after = w + 1 == WIDTH ? right[u] : Number(centre[u].at[w + 1 == WIDTH ? w : w + 1]);
      result.at[w] = rounded(a * before + b * Number(centre[u].at[w]) + c * after);
    }
    store(y + place(u), result);
  }
}

// The backward as it follows from the forward: each thread adds to three elements, which others add to as well. A
// vector's threads' sums are made in registers first. grad_x holds zeros.
extern "C" __global__ void __launch_bounds__(BLOCK)
    backward_scattered(const Element* grad, Number a, Number b, Number c, Element* grad_x, Index count) {
  const bool inside = blockIdx.x > 0 && blockIdx.x + 1 < gridDim.x;
  if (!is_full(count)) {
    remainder(count, [&](Index i) {
      const Number g = load_one(grad + i);
      if (i > 0) atomicAdd(grad_x + i - 1, a * g);
      atomicAdd(grad_x + i, b * g);
      if (i + 1 < count) atomicAdd(grad_x + i + 1, c * g);
    });
    return;
  }
  Vector<Element> grads[UNROLL];
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) grads[u] = load(grad + place(u));
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    Number sums[WIDTH + 2] = {};
#pragma unroll
    for (Index w = 0; w < WIDTH; ++w) {
      sums[w] += a * grads[u].at[w];
      sums[w + 1] += b * grads[u].at[w];
      sums[w + 2] += c * grads[u].at[w];
    }
    const Index i = place(u);
    if (inside || i > 0) atomicAdd(grad_x + i - 1, sums[0]);
#pragma unroll
    for (Index w = 0; w < WIDTH; ++w) atomicAdd(grad_x + i + w, sums[w + 1]);
    if (inside || i + WIDTH < count) atomicAdd(grad_x + i + WIDTH, sums[WIDTH + 1]);
  }
}
