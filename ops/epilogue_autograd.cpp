// The derivatives of dense products with an epilogue, and what those of all products with one share.
#include "epilogue_autograd.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include "dispatch/dispatched_call.h"
#include "operator/operator.h"

namespace torch_slang::product {

namespace ag = torch::autograd;

RecordedFunction::RecordedFunction(const Epilogue& epilogue, const Tensor& first)
    : family(epilogue.function(first.scalar_type())), op(family.current()) {}

bool is_recorded(const Epilogue& epilogue, const Tensor& first, const Tensor& second, at::TensorList arguments) {
  const auto has_tangent = [](const Tensor& tensor) { return ag::isFwGradDefined(tensor); };
  TORCH_CHECK_NOT_IMPLEMENTED(
      !has_tangent(first) && !has_tangent(second) && std::none_of(arguments.begin(), arguments.end(), has_tangent),
      epilogue.where, ": forward-mode derivatives are not available");
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
  const auto give = [&](const auto& tensor_at) {
    size_t next = 0;
    result[0] = tensor_at(next++);
    for (size_t i = 0; i < inputs.arguments.size(); ++i) {
      if (function.is_differentiable(i)) result[i + 1] = tensor_at(next++);
    }
  };
  if (function.family.has_schemas_of(*function.op)) {
    const PinnedOperator pin(function.family, *function.op);
    function.family.handle(OpKind::Backward).callBoxed(&stack);
    give([&](size_t i) { return stack[i].toTensor(); });
  } else {  // the name was reloaded with other arguments: what was recorded runs as it was recorded
    const Results computed = function.op->run(OpKind::Backward, stack);
    give([&](size_t i) { return computed[i]; });
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
  if (is_recorded(epilogue_named(kMatmul, name), a, b, arguments)) {
    return std::get<0>(mm_with_epilogue_and_sum().call(name, a, b, arguments));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return mm_with_epilogue().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
}

TensorPair mm_with_epilogue_and_sum_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a,
                                             const Tensor& b, at::TensorList arguments) {
  TensorPair results;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    results = mm_with_epilogue_and_sum().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
  }
  return with_history(
      std::move(results), epilogue_named(kMatmul, name), [] { return DenseProduct(); }, a, b, arguments);
}

}  // namespace torch_slang::product
