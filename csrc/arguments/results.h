// What a call of an operator gives.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace torch_slang {

using Results = c10::SmallVector<at::Tensor, 4>;

}  // namespace torch_slang
