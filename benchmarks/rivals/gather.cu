// y[i] = w[index[i]] * x[i]. Any threads may meet in an element of w, so its gradient needs atomics; that of x does not.
#include "tile.cuh"

static_assert(sizeof(Element) == sizeof(int), "vectors of elements and of indices have the same width");

extern "C" __global__ void __launch_bounds__(BLOCK)
    forward(const Element* w, const int* index, const Element* x, Element* y, Index count) {
  if (!is_full(count)) {
    remainder(count, [&](Index i) { y[i] = load_one(w + load_one(index + i)) * load_one(x + i); });
    return;
  }
  Vector<int> at[UNROLL];
  Vector<Element> values[UNROLL], found[UNROLL];
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    at[u] = load(index + place(u));
    values[u] = load(x + place(u));
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
    for (Index k = 0; k < WIDTH; ++k) found[u].at[k] = load_one(w + at[u].at[k]);
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
    for (Index k = 0; k < WIDTH; ++k) found[u].at[k] *= values[u].at[k];
    store(y + place(u), found[u]);
  }
}

// grad_w holds zeros; null: unwanted.
template <bool TABLE>
static __device__ __forceinline__ void gradients(
    const Element* grad, const Element* w, const int* index, const Element* x, Element* grad_w, Element* grad_x,
    Index count) {
  if (!is_full(count)) {
    remainder(count, [&](Index i) {
      const int at = load_one(index + i);
      const Element g = load_one(grad + i);
      grad_x[i] = load_one(w + at) * g;
      if (TABLE) atomicAdd(grad_w + at, load_one(x + i) * g);
    });
    return;
  }
  Vector<int> at[UNROLL];
  Vector<Element> grads[UNROLL], values[UNROLL], found[UNROLL];
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    at[u] = load(index + place(u));
    grads[u] = load(grad + place(u));
    if (TABLE) values[u] = load(x + place(u));
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
    for (Index k = 0; k < WIDTH; ++k) found[u].at[k] = load_one(w + at[u].at[k]);
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
    for (Index k = 0; k < WIDTH; ++k) {
      found[u].at[k] *= grads[u].at[k];
      if (TABLE) atomicAdd(grad_w + at[u].at[k], values[u].at[k] * grads[u].at[k]);
    }
    store(grad_x + place(u), found[u]);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) backward(
    const Element* grad, const Element* w, const int* index, const Element* x, Element* grad_w, Element* grad_x,
    Index count) {
  gradients<true>(grad, w, index, x, grad_w, grad_x, count);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    backward_x(const Element* grad, const Element* w, const int* index, Element* grad_x, Index count) {
  gradients<false>(grad, w, index, nullptr, nullptr, grad_x, count);
}
