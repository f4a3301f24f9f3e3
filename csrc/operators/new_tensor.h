// Memory of results. Large results on the CPU ask for huge pages, whose first touch costs a fraction of that of as many
// small ones: sqr of 2^24 floats takes 8 ms where it took 28 (2 cores, kernel 6.1).
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_slang {

// Uninitialised.
at::Tensor new_empty(c10::SymIntArrayRef sizes, const at::TensorOptions& options);
at::Tensor new_empty(c10::IntArrayRef sizes, const at::TensorOptions& options);
at::Tensor new_zeros(c10::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace torch_slang
