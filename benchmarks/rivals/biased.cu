// y[r, c] = (x[r, c] + bias[c])^2. A thread takes the same columns of ROWS rows, UNROLL of them at a time, and so adds up
// its part of the bias's gradient in registers. The number of columns is a multiple of WIDTH.
#include "tile.cuh"

#ifndef ROWS
#define ROWS UNROLL
#endif
static_assert(ROWS % UNROLL == 0, "rows are taken UNROLL at a time");

// step(first, rows): the thread's vectors at `first`, first + columns, ... of up to UNROLL rows.
template <class Step>
static __device__ __forceinline__ void each_group(Index rows, Index columns, Index column, Step step) {
  for (Index group = 0; group < ROWS; group += UNROLL) {
    const Index row = blockIdx.y * ROWS + group;
    if (row >= rows) return;
    step(row * columns + column, rows - row < UNROLL ? rows - row : UNROLL);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    forward(const Element* x, const Element* bias, Element* y, Index rows, Index columns) {
  const Index column = (blockIdx.x * BLOCK + threadIdx.x) * WIDTH;
  if (column >= columns) return;
  const Vector<Element> shift = load(bias + column);
  each_group(rows, columns, column, [&](Index first, Index some) {
    Vector<Element> values[UNROLL];
#pragma unroll
    for (Index u = 0; u < UNROLL; ++u) {
      if (u < some) values[u] = load(x + first + u * columns);
    }
#pragma unroll
    for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (Index w = 0; w < WIDTH; ++w) {
        const Number v = Number(values[u].at[w]) + Number(shift.at[w]);
        values[u].at[w] = rounded(v * v);
      }
      if (u < some) store(y + first + u * columns, values[u]);
    }
  });
}

template <bool BIAS>
static __device__ __forceinline__ void gradients(
    const Element* grad, const Element* x, const Element* bias, Element* grad_x, Element* grad_bias, Index rows,
    Index columns) {
  const Index column = (blockIdx.x * BLOCK + threadIdx.x) * WIDTH;
  if (column >= columns) return;
  const Vector<Element> shift = load(bias + column);
  Number sums[WIDTH] = {};
  each_group(rows, columns, column, [&](Index first, Index some) {
    Vector<Element> values[UNROLL], grads[UNROLL];
#pragma unroll
    for (Index u = 0; u < UNROLL; ++u) {
      if (u < some) {
        values[u] = load(x + first + u * columns);
        grads[u] = load(grad + first + u * columns);
      }
    }
#pragma unroll
    for (Index u = 0; u < UNROLL; ++u) {
      if (u >= some) continue;
#pragma unroll
      for (Index w = 0; w < WIDTH; ++w) {
        const Number g = Number(2) * (Number(values[u].at[w]) + Number(shift.at[w])) * Number(grads[u].at[w]);
        values[u].at[w] = rounded(g);
        sums[w] += g;
      }
      store(grad_x + first + u * columns, values[u]);
    }
  });
  if (BIAS) {
#pragma unroll
    for (Index w = 0; w < WIDTH; ++w) atomicAdd(grad_bias + column + w, sums[w]);
  }
}

// grad_bias holds zeros.
extern "C" __global__ void __launch_bounds__(BLOCK) backward(
    const Element* grad, const Element* x, const Element* bias, Element* grad_x, Element* grad_bias, Index rows,
    Index columns) {
  gradients<true>(grad, x, bias, grad_x, grad_bias, rows, columns);
}

extern "C" __global__ void __launch_bounds__(BLOCK) backward_x(
    const Element* grad, const Element* x, const Element* bias, Element* grad_x, Index rows, Index columns) {
  gradients<false>(grad, x, bias, grad_x, nullptr, rows, columns);
}
