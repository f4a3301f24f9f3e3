// Gradients that are summed from parts: of broadcast arguments, of scalars, of replicas. Sums are kept in float32 or better,
// and rounded once.
#pragma once

#include <ATen/core/Tensor.h>

#include "program/enumerations.h"

namespace torch_slang {

// Of memory for parts of the gradient of numbers of this type.
at::TensorOptions summing_options(ElementType type, c10::Device device);
// Over one dimension.
at::Tensor summed(const at::Tensor& parts, int64_t dimension);
// A gradient as its argument is: in its type, on its device.
at::Tensor like_argument(const at::Tensor& gradient, const at::Tensor& argument);

}  // namespace torch_slang
