// Trilinear interpolation as a first extension in CUDA has it: a thread for each element of the result, and the derivative
// written out by hand. In `published` blocks of 16 x 16 threads run along the rows first, so that neighbours lie F elements
// apart; in `coalesced` along the features first. `backward_all` has gradients of points too: a warp takes a row.
#include "tile.cuh"

struct Weights {
  Number k[8];

  __device__ Weights(const Element* points, Index row) {
    const Number u = unit(points[3 * row]), v = unit(points[3 * row + 1]), w = unit(points[3 * row + 2]);
    const Number plane[4] = {(1 - v) * (1 - w), v * (1 - w), (1 - v) * w, v * w};
    for (int i = 0; i < 4; ++i) {
      k[i] = (1 - u) * plane[i];
      k[i + 4] = u * plane[i];
    }
  }
  static __device__ Number unit(Number p) { return (p + 1) * Number(0.5); }
};

static __device__ __forceinline__ void forward(const Element* feats, const Element* points, Element* result, Index row,
                                               Index feature, Index rows, Index features) {
  if (row >= rows || feature >= features) return;
  const Weights weights(points, row);
  Number sum = 0;
  for (Index k = 0; k < 8; ++k) sum += weights.k[k] * Number(feats[(row * 8 + k) * features + feature]);
  result[row * features + feature] = rounded(sum);
}

static __device__ __forceinline__ void backward(const Element* grad, const Element* points, Element* grad_feats, Index row,
                                                Index feature, Index rows, Index features) {
  if (row >= rows || feature >= features) return;
  const Weights weights(points, row);
  const Number g = grad[row * features + feature];
  for (Index k = 0; k < 8; ++k) grad_feats[(row * 8 + k) * features + feature] = rounded(weights.k[k] * g);
}

extern "C" __global__ void forward_published(const Element* feats, const Element* points, Element* result, Index rows,
                                             Index features) {
  forward(feats, points, result, blockIdx.x * 16 + threadIdx.x, blockIdx.y * 16 + threadIdx.y, rows, features);
}
extern "C" __global__ void backward_published(const Element* grad, const Element* points, Element* grad_feats, Index rows,
                                              Index features) {
  backward(grad, points, grad_feats, blockIdx.x * 16 + threadIdx.x, blockIdx.y * 16 + threadIdx.y, rows, features);
}

extern "C" __global__ void forward_coalesced(const Element* feats, const Element* points, Element* result, Index rows,
                                             Index features) {
  forward(feats, points, result, blockIdx.y * 8 + threadIdx.y, blockIdx.x * 32 + threadIdx.x, rows, features);
}
extern "C" __global__ void backward_coalesced(const Element* grad, const Element* points, Element* grad_feats, Index rows,
                                              Index features) {
  backward(grad, points, grad_feats, blockIdx.y * 8 + threadIdx.y, blockIdx.x * 32 + threadIdx.x, rows, features);
}

static __device__ Number along(Number g, const Number (&near)[4], const Number (&far)[4], const Number (&weight)[4]) {
  Number slope = 0;
  for (int i = 0; i < 4; ++i) slope += weight[i] * (far[i] - near[i]);
  return g * slope * Number(0.5);
}

extern "C" __global__ void backward_all(const Element* grad, const Element* feats, const Element* points,
                                        Element* grad_feats, Element* grad_points, Index rows, Index features) {
  const Index row = blockIdx.x * 8 + threadIdx.y;
  if (row >= rows) return;
  const Weights weights(points, row);
  const Number u = Weights::unit(points[3 * row]), v = Weights::unit(points[3 * row + 1]), w = Weights::unit(points[3 * row + 2]);
  const Number across_u[4] = {(1 - v) * (1 - w), v * (1 - w), (1 - v) * w, v * w};
  const Number across_v[4] = {(1 - u) * (1 - w), (1 - u) * w, u * (1 - w), u * w};
  const Number across_w[4] = {(1 - u) * (1 - v), (1 - u) * v, u * (1 - v), u * v};
  Number sums[3] = {0, 0, 0};
  for (Index feature = threadIdx.x; feature < features; feature += 32) {
    const Number g = grad[row * features + feature];
    Number c[8];
    for (Index k = 0; k < 8; ++k) {
      const Index place = (row * 8 + k) * features + feature;
      c[k] = feats[place];
      grad_feats[place] = rounded(weights.k[k] * g);
    }
    sums[0] += along(g, {c[0], c[1], c[2], c[3]}, {c[4], c[5], c[6], c[7]}, across_u);
    sums[1] += along(g, {c[0], c[2], c[4], c[6]}, {c[1], c[3], c[5], c[7]}, across_v);
    sums[2] += along(g, {c[0], c[1], c[4], c[5]}, {c[2], c[3], c[6], c[7]}, across_w);
  }
  for (int axis = 0; axis < 3; ++axis) {
    for (int lane = 16; lane > 0; lane /= 2) sums[axis] += __shfl_down_sync(~0u, sums[axis], lane);
    if (threadIdx.x == 0) grad_points[3 * row + axis] = rounded(sums[axis]);
  }
}
