// The arguments of the operators that derivatives are made of: Note [second derivatives] in gradients/derived_calls.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "operators/operator.h"

namespace torch_slang {

// The arguments of a call of f or f_backward, by leaf of f; and what goes with them. Undefined tensors stand for zeros.
struct DerivativeArguments {
  std::vector<c10::IValue> values;  // None for outputs
  std::vector<at::Tensor> tangents;  // of differentiable inputs
  std::vector<at::Tensor> gradients;  // of outputs
  c10::IValue sample_dims;  // of an operator for calls under vmap

  explicit DerivativeArguments(const Operator& op)
      : values(op.signature().function.leaves.size()), tangents(values.size()), gradients(values.size()) {}
};

// Of f_backward. `mask`: which gradients are wanted, by differentiable inputs of `op`.
std::vector<c10::IValue> arguments_of_backward(const Operator& op, const DerivativeArguments& arguments,
                                               const std::vector<bool>& mask);
// `made`: f's operator of tangents, alone or with values.
std::vector<c10::IValue> arguments_of_jvp(const Operator& made, const DerivativeArguments& arguments);
// Of f_jvp_backward; gradients by tangents are not asked for.
std::vector<c10::IValue> arguments_of_jvp_backward(const Operator& op, const DerivativeArguments& arguments,
                                                   const std::vector<bool>& mask);
// `all`: the results of f_jvp_backward. Leaves out those of tangents, and orders the rest as f's inputs.
std::vector<at::Tensor> gradients_by_input(const Operator& op, std::vector<at::Tensor> all);

}  // namespace torch_slang
