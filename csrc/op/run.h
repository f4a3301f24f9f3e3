// What the registered ops do, below autograd: arguments in, results out.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "op/operator.h"

namespace torch_slang {

using Results = c10::SmallVector<at::Tensor, 4>;

// Runs one call on CPU or CUDA tensors.
Results run(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// The same call's results on the meta device: shapes, dtypes and errors, symbolic sizes included.
Results run_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// While it lives, outputs that operators make on this thread begin as numbers that stand out, unless [Fill] says others:
// what a kernel does not write then shows.
class SpoiledOutputs {
 public:
  SpoiledOutputs();
  ~SpoiledOutputs();
  SpoiledOutputs(const SpoiledOutputs&) = delete;
  SpoiledOutputs& operator=(const SpoiledOutputs&) = delete;
};

}  // namespace torch_slang
