#include "gradients/derived_calls.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <iterator>

#include "operators/dispatched_call.h"
#include "operators/sampled_operator.h"

namespace torch_slang {
namespace {

std::vector<at::Tensor> tensors_on(torch::jit::Stack& stack) {
  std::vector<at::Tensor> tensors;
  for (auto& value : stack) tensors.push_back(std::move(value).toTensor());
  return tensors;
}

// Whether the dispatcher would do nothing but run the operator on a device: nothing is recorded, traced or mapped.
bool goes_straight_to_a_device(const torch::jit::Stack& stack) {
  c10::DispatchKeySet keys;
  for (const c10::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (torch::autograd::isFwGradDefined(tensor) || (c10::GradMode::is_enabled() && tensor.requires_grad()))
      return false;
    keys = keys | tensor.key_set();
  }
  return reaches_a_device(keys);
}

}  // namespace

bool reaches_a_device(c10::DispatchKeySet tensors) {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const auto keys =
      (tensors | local.included_) - local.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView -
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect);  // is always there, for ops that take a device
  const c10::DispatchKey key = keys.highestPriorityTypeId();
  return key == c10::DispatchKey::CPU || key == c10::DispatchKey::CUDA;
}

void refuse(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<c10::IValue> alike(arguments.begin(), arguments.end());
  for (c10::IValue& value : alike) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor tensor = value.toTensor();
    value = at::empty_symint(tensor.sym_sizes(), tensor.options().device(c10::kMeta));
  }
  op.run_meta(kind, alike);
}

void call_as(const RegisteredFamily& family, const Operator& op, OpKind kind, torch::jit::Stack& stack) {
  if (family.has_schemas_of(op)) {
    const PinnedOperator pin(family, op);
    call_boxed(family.handle(kind), op, kind, stack);
    return;
  }
  // The name was reloaded with other arguments: the recorded operator runs, without the dispatcher. So no
  // derivative of it can be recorded.
  for (const c10::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    TORCH_CHECK(!torch::autograd::isFwGradDefined(tensor) && !(c10::GradMode::is_enabled() && tensor.requires_grad()),
                op.signature().qualified(kind), ": a derivative of it is asked, but ",
                op.signature().qualified(OpKind::Forward),
                " was reloaded with other arguments since it was called: call it again");
  }
  Results results = op.run(kind, stack);
  stack.assign(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
}

std::vector<at::Tensor> call_jvp(const RegisteredFamily& family, const Operator& op,
                                 const DerivativeArguments& arguments) {
  torch::jit::Stack stack = arguments_of_jvp(*op.jvp, arguments);
  call_as(*family.jvp(), *op.jvp, OpKind::Forward, stack);
  return tensors_on(stack);
}

std::vector<at::Tensor> call_dual(const RegisteredFamily& family, const Operator& op,
                                  const DerivativeArguments& arguments) {
  torch::jit::Stack stack = arguments_of_jvp(*op.dual, arguments);
  const PinnedOperator pin(family, op);  // which may be called in its place
  call_as(*family.dual(), *op.dual, OpKind::Forward, stack);
  return tensors_on(stack);
}

std::vector<at::Tensor> call_backward(const RegisteredFamily& family, const Operator& op,
                                      const DerivativeArguments& arguments, const std::vector<bool>& mask) {
  torch::jit::Stack stack = arguments_of_backward(op, arguments, mask);
  call_as(family, op, OpKind::Backward, stack);
  return tensors_on(stack);
}

std::vector<at::Tensor> call_jvp_backward(const RegisteredFamily& family, const Operator& op,
                                          const DerivativeArguments& arguments, const std::vector<bool>& mask) {
  torch::jit::Stack stack = arguments_of_jvp_backward(op, arguments, mask);
  call_as(*family.jvp(), *op.jvp, OpKind::Backward, stack);
  return gradients_by_input(op, tensors_on(stack));
}

std::optional<TangentsAndGradients> call_jvp_and_backward(const Operator& op, const DerivativeArguments& arguments,
                                                          const std::vector<bool>& mask) {
  const torch::jit::Stack stack = arguments_of_jvp_backward(op, arguments, mask);
  if (!goes_straight_to_a_device(stack)) return std::nullopt;
  const auto results = op.jvp->run_backward_with_values(stack);
  if (!results) return std::nullopt;
  audit_after(*op.jvp, OpKind::Backward, stack);
  const auto end = results->end() - static_cast<std::ptrdiff_t>(op.jvp->signature().outputs.size());
  return TangentsAndGradients{{end, results->end()}, gradients_by_input(op, {results->begin(), end})};
}

}  // namespace torch_slang
