// What a call of an operator gives, and the function that runs one: those below call/run.h are given it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include "signature/op_signature.h"

namespace torch_slang {

struct Operator;

using Results = c10::SmallVector<at::Tensor, 4>;
using RunOperator = Results (*)(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// While it lives, outputs that operators make on this thread begin as numbers that stand out, unless [Fill] says others:
// what a kernel does not write then shows.
class SpoiledOutputs {
 public:
  SpoiledOutputs();
  ~SpoiledOutputs();
  SpoiledOutputs(const SpoiledOutputs&) = delete;
  SpoiledOutputs& operator=(const SpoiledOutputs&) = delete;
};
bool are_outputs_spoiled();  // on this thread

}  // namespace torch_slang
