// What a launch hands to compiled device code: one flat argument block. The run-time includes this header, and its text
// also stands at the top of every device source, so both sides agree on the layout by construction. Plain C++ without
// includes: NVRTC and the host compiler both read it.
//
// Note [argument block]
//   Entry points take no parameters of their own. Everything that a kernel is given lies in one block:
//     TslHeader | views[V] | slots[S] | dims[D]
//   A *view* is one tensor: the primal, the gradient or the tangent of a parameter each have their own. A null `data`
//   means absent: loads give zero, stores and accumulations do nothing (an unwanted gradient, an output in a backward).
//   A *slot* is eight bytes that hold one component of a scalar, vector, matrix or array parameter, in the component's
//   own type at the slot's first byte, or a pointer. A *dim* is the value of one name of the shape language.
#pragma once

enum { kTslMaxDims = 5 };

struct TslView {
  unsigned char* data;
  long long strides[kTslMaxDims];  // bytes; 0 for expanded dimensions, may be negative
  unsigned sizes[kTslMaxDims];     // in elements; a float3 view counts float3s
  unsigned dimensionCount;
};

struct TslHeader {
  unsigned grid[3];   // blocks, as the kernel sees gridDim
  unsigned block[3];  // threads, as the kernel sees blockDim
};

static_assert(sizeof(TslView) == 72, "the run-time and device code must agree on TslView");
static_assert(sizeof(TslHeader) == 24, "the run-time and device code must agree on TslHeader");
