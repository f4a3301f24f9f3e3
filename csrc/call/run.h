// What the registered ops do, below autograd: arguments in, results out.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "arguments/results.h"
#include "operator/operator.h"

namespace torch_slang {

// Runs one call on CPU or CUDA tensors.
Results run(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// The same call's results on the meta device: shapes, dtypes and errors, symbolic sizes included.
Results run_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_slang
