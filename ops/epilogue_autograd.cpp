// The derivatives of dense products with an epilogue, and what those of all products with one share.
#include "epilogue_autograd.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include "gradients/derived_calls.h"
#include "operators/operator.h"

namespace torch_slang::product {

namespace ag = torch::autograd;

RecordedFunction::RecordedFunction(const Epilogue& epilogue, const Tensor& first)
    : family(epilogue.function(first.scalar_type())), op(family.current()) {}

bool has_tangent(const Tensor& first, const Tensor& second, at::TensorList arguments) {
  return ag::isFwGradDefined(first) || ag::isFwGradDefined(second) ||
         std::any_of(arguments.begin(), arguments.end(), [](const Tensor& t) { return ag::isFwGradDefined(t); });
}

Tensor function_of(const Epilogue& epilogue, const Tensor& sum, at::TensorList arguments) {
  const RecordedFunction function(epilogue, sum);
  torch::jit::Stack stack{sum};
  for (const Tensor& argument : arguments) stack.emplace_back(argument);
  call_as(function.family, *function.op, OpKind::Forward, stack);
  return stack[0].toTensor().to(sum.scalar_type());
}

bool is_recorded(const Epilogue& epilogue, const Tensor& first, const Tensor& second, at::TensorList arguments) {
  if (!c10::GradMode::is_enabled()) return false;
  if (first.requires_grad() || second.requires_grad()) return true;
  if (std::none_of(arguments.begin(), arguments.end(), [](const Tensor& t) { return t.requires_grad(); })) return false;
  const RecordedFunction function(epilogue, first);
  for (size_t i = 0; i < arguments.size() && i + 1 < function.op->signature().function.leaves.size(); ++i) {
    if (arguments[i].requires_grad() && function.is_differentiable(i)) return true;
  }
  return false;
}

namespace {

// Of sum, then of each argument, by the function's backward operator.
ag::variable_list call_backward(const RecordedFunction& function, const Tensor& grad, const FunctionInputs& inputs) {
  torch::jit::Stack stack{grad, inputs.sum};
  c10::List<bool> mask;
  mask.push_back(inputs.wanted[0] || inputs.wanted[1]);
  for (size_t i = 0; i < inputs.arguments.size(); ++i) {
    stack.emplace_back(inputs.arguments[i]);
    if (function.is_differentiable(i)) mask.push_back(inputs.wanted[i + 2]);
  }
  stack.emplace_back(std::move(mask));
  ag::variable_list result(inputs.arguments.size() + 1);
  call_as(function.family, *function.op, OpKind::Backward, stack);
  size_t next = 0;
  result[0] = stack[next++].toTensor();
  for (size_t i = 0; i < inputs.arguments.size(); ++i) {
    if (function.is_differentiable(i)) result[i + 1] = stack[next++].toTensor();
  }
  return result;
}

}  // namespace

ag::variable_list gradients_of_function(const RecordedFunction& function, const ag::variable_list& grads,
                                        const FunctionInputs& inputs) {
  ag::variable_list result(inputs.arguments.size() + 1);
  if (grads[0].defined()) result = call_backward(function, grads[0], inputs);
  Tensor& of_sum = result[0];
  if (grads[1].defined()) of_sum = of_sum.defined() ? grads[1].add(of_sum) : grads[1];
  return result;
}

namespace {

struct DenseProduct {
  ProductLayout layout;

  Tensor of_first(const Tensor& grad, const Tensor& b) const { return mm().call(grad, b.mT()); }
  Tensor of_second(const Tensor& grad, const Tensor& a) const { return mm().call(a.mT(), grad); }
  void collect(torch::dynamo::autograd::CompiledNodeArgs&) const {}
};

}  // namespace

Tensor mm_with_epilogue_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a, const Tensor& b,
                                 at::TensorList arguments) {
  if (has_tangent(a, b, arguments) || is_recorded(epilogue_named(kMatmul, name), a, b, arguments)) {
    return std::get<0>(mm_with_epilogue_and_sum().call(name, a, b, arguments));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return mm_with_epilogue().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
}

TensorPair mm_with_epilogue_and_sum_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a,
                                             const Tensor& b, at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(kMatmul, name);
  const PinnedEpilogue pin(epilogue);
  if (has_tangent(a, b, arguments)) {
    check_mm_with_epilogue(epilogue, a, b, arguments);
    const Tensor sum = mm().call(a, b);
    return {function_of(epilogue, sum, arguments), sum};
  }
  TensorPair results;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    results = mm_with_epilogue_and_sum().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
  }
  return with_history(std::move(results), epilogue, [] { return DenseProduct(); }, a, b, arguments);
}

}  // namespace torch_slang::product
