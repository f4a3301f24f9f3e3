// A kernel as the compiler and the operator layer would hand it to a backend: y[i] = x[i] * x[i] of float32.
#pragma once

#include <string>

#include "backend/backend.h"

namespace torch_slang {

inline constexpr const char* kPresentY = "tsl::present_view(args, 1)";

// `expression` is stored to y[i]; it may name `v`, the element of x, and `old`, that of y.
inline KernelSource square_source(const std::string& expression = "v * v", const std::string& y_view = kPresentY) {
  KernelSource source;
  source.op = "slang::sqr";
  source.text.function = "sqr";
  source.text.entry = "sqr__fwd__f32";
  source.text.body = R"(
#line 7 "/home/user/sqr.slang"
__device__ void sqr__fwd__f32() {
  TensorView x = tsl_view(0);
  TensorView y = tsl_view(1);
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= x.size_of(0)) return;
  float v = x.load<float>(i);
  float old = y.load<float>(i);
  y.store<float>(i, )" +
                     expression + R"();
}
)";
  source.make_view = "switch (k) {\n case 1: return " + y_view + ";\n default: return tsl::present_view(args, k);\n}";
  source.view_count = 2;
  return source;
}

}  // namespace torch_slang
