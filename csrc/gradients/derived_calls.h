// What derivatives of the first and second order are made of: calls of a family's derivative operators through the whole
// dispatcher, so that functorch, fake tensors and modes see them, and so that they have derivatives themselves.
//
// Note [second derivatives]
//   Let y = f(x), t a tangent of x and g a gradient of y. There are three operators:
//     f_backward(g, x)         J^T g
//     f_jvp(x, t)              J t
//     f_jvp_backward(g, x, t)  the gradients of (g, J t): of x, which is the second derivative, and of t, which is J^T g
//   f_backward is linear in g, and its derivative by x in the direction t is the gradient of (g, J t) by x, since second
//   derivatives are symmetric. So the derivatives of f_backward, backward and forward, are calls of these three.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <vector>

#include "gradients/derivative_arguments.h"
#include "operators/registered_op.h"

namespace torch_slang {

// By grad_outputs of `op`.
std::vector<at::Tensor> call_jvp(const RegisteredFamily& family, const Operator& op,
                                 const DerivativeArguments& arguments);
// The same, and behind those the results of `op`, by one call: Note [dual calls] in dispatch/dual_call.h.
std::vector<at::Tensor> call_dual(const RegisteredFamily& family, const Operator& op,
                                  const DerivativeArguments& arguments);
// The gradients of the inputs that `mask` wants, by differentiable inputs of `op`.
std::vector<at::Tensor> call_backward(const RegisteredFamily& family, const Operator& op,
                                      const DerivativeArguments& arguments, const std::vector<bool>& mask);
std::vector<at::Tensor> call_jvp_backward(const RegisteredFamily& family, const Operator& op,
                                          const DerivativeArguments& arguments, const std::vector<bool>& mask);

// What a double backward is made of, by one kernel: Note [double backward in one loop] in functions/call.h.
// None where there is no such kernel, or where somebody must see the two calls: functorch, a mode, autograd.
struct TangentsAndGradients {
  std::vector<at::Tensor> tangents;  // as of call_jvp
  std::vector<at::Tensor> gradients;  // as of call_jvp_backward
};
std::optional<TangentsAndGradients> call_jvp_and_backward(const Operator& op, const DerivativeArguments& arguments,
                                                          const std::vector<bool>& mask);

// Whether for such tensors the dispatcher, autograd aside, would do nothing but run an operator on a device: nothing traces,
// transforms or watches the call.
bool reaches_a_device(c10::DispatchKeySet tensors);

// Throws if a call with such arguments is refused, in the words of `op`.
void refuse(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// Runs an operator of the family as `op` has it; the results are on the stack.
void call_as(const RegisteredFamily& family, const Operator& op, OpKind kind, torch::jit::Stack& stack);

}  // namespace torch_slang
