// Who audits an operator's derivatives: audit/audits.h.
#pragma once

#include <ATen/core/ivalue.h>

#include "operators/op_signature.h"

namespace torch_slang {

class Operator;

class Audited {
 public:
  virtual ~Audited() = default;
  // After a call of f's backward, or of f's operator of tangents or its backward, on CPU or CUDA tensors; before the results are given
  // out. Throws where the derivative is known to be wrong. `keeps_samples`: dimensions of samples stand in front, their
  // number behind the arguments.
  virtual void after(const Operator& called, OpKind kind, c10::ArrayRef<c10::IValue> arguments, bool keeps_samples) = 0;
};

}  // namespace torch_slang
