#include "gradients/autograd.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "gradients/autograd_node.h"
#include "gradients/forward_mode.h"
#include "gradients/second_node.h"
#include "operators/dispatched_call.h"

namespace torch_slang {

namespace {

namespace ag = torch::autograd;
using torch::jit::Stack;

void redispatch(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, const Operator& op, OpKind kind,
                Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  redispatch_boxed(handle, keys & c10::after_autograd_keyset, op, kind, *stack);
}

const std::string& name_of_argument(const Operator& op, OpKind kind, size_t index) {
  return op.signature().of(kind)->schema->arguments()[index].name();
}

// First argument that requires a gradient, or -1. With `only`, just those leaves are looked at.
int requiring_grad(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments, bool only_differentiable) {
  if (!c10::GradMode::is_enabled()) return -1;
  const auto& meaning = op.signature().of(kind)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined() || !arguments[i].toTensor().requires_grad())
      continue;
    if (!only_differentiable || meaning[i].role == OpArgument::Role::Gradient ||
        op.signature().function.leaves[meaning[i].leaf].differentiable) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void bump_version(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().is_inference()) return;
  value.toTensor().unsafeGetTensorImpl()->bump_version();
}

// Mutated arguments, as the dispatcher has them, get a new version, as after PyTorch's own in-place ops.
void bump_versions(const c10::OperatorHandle& handle, c10::ArrayRef<c10::IValue> arguments) {
  const auto& schema = handle.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    if (arguments[i].isList()) {
      for (const c10::IValue& value : arguments[i].toListRef()) bump_version(value);
    } else {
      bump_version(arguments[i]);
    }
  }
}

void call_launch(const Operator& op, OpKind kind, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                 Stack* stack) {
  const Signature& signature = op.signature();
  const auto view = torch::jit::last(*stack, signature.of(kind)->arguments.size());
  const int culprit = requiring_grad(op, kind, view, false);
  TORCH_CHECK(culprit < 0, signature.qualified(kind), ": ", name_of_argument(op, kind, static_cast<size_t>(culprit)),
              " requires grad, but a launch op is not differentiable: ",
              signature.of(OpKind::Forward) != nullptr ? "call " + signature.qualified(OpKind::Forward) + ", or " : "",
              "launch under torch.no_grad()");
  redispatch(handle, keys, op, kind, stack);  // by way of VersionKernel
}

// An error, but only once somebody asks for the derivative.
void call_without_derivative(const Operator& op, OpKind kind, const char* reason, const c10::OperatorHandle& handle,
                             c10::DispatchKeySet keys, Stack* stack) {
  const auto& signature = *op.signature().of(kind);
  const auto view = torch::jit::last(*stack, signature.arguments.size());
  ag::variable_list inputs;
  if (requiring_grad(op, kind, view, kind == OpKind::Backward) >= 0) {
    for (const auto& value : view) {
      if (value.isTensor() && value.toTensor().defined()) inputs.push_back(value.toTensor());
    }
  }
  redispatch(handle, keys, op, kind, stack);
  if (inputs.empty()) return;
  const auto node =
      make_node<ag::Error>(op.signature().qualified(kind) + ": " + reason, ag::collect_next_edges(inputs));
  for (const auto& value : torch::jit::last(*stack, signature.results.size())) {
    const at::Tensor& result = value.toTensor();
    if (result.defined() && ag::isDifferentiableType(result.scalar_type())) ag::set_history(result, node);
  }
}

// Throws where a tensor requires a gradient that it cannot have.
void check_gradients(const Operator& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!c10::GradMode::is_enabled()) return;
  const auto& meaning = op.signature().of(OpKind::Forward)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined() || !arguments[i].toTensor().requires_grad())
      continue;
    op.check_requires_grad(meaning[i].leaf, name_of_argument(op, OpKind::Forward, i));
  }
}

// Of tensors that a recorded call changes, and that are part of the graph from then on.
void check_changed(const Signature& signature, c10::ArrayRef<c10::IValue> arguments) {
  const auto& meaning = signature.of(OpKind::Forward)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (meaning[i].role != OpArgument::Role::Leaf) continue;
    const Leaf& leaf = signature.function.leaves[meaning[i].leaf];
    if (!leaf.is_written() || !leaf.differentiable) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    TORCH_CHECK(!tensor.is_leaf() || !tensor.requires_grad(), signature.qualified(OpKind::Forward),
                ": the function stores to ", leaf.path,
                ", but got a leaf of the graph that requires grad, which no operator may change in place: pass "
                "one that does not require grad, or a clone()");
    TORCH_CHECK(!tensor.is_view() || tensor.is_inference(), signature.qualified(OpKind::Forward),
                ": the function stores to ", leaf.path,
                ", but got a view of another tensor, whose history would have to change with it: pass a tensor of "
                "its own, and copy it into the view");
  }
}

void call_forward(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op,
                  const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const Signature& signature = op->signature();
  const bool has_backward = signature.of(OpKind::Backward) != nullptr;
  if (handle.schema().is_mutable())
    check_gradients(*op, torch::jit::last(*stack, signature.of(OpKind::Forward)->arguments.size()));
  if (const char* reason = has_backward ? nullptr : op->why_no_derivative()) {
    return call_without_derivative(*op, OpKind::Forward, reason, handle, keys, stack);
  }
  const auto view = torch::jit::last(*stack, signature.of(OpKind::Forward)->arguments.size());
  check_gradients(*op, view);
  if (!has_backward || requiring_grad(*op, OpKind::Forward, view, true) < 0) {
    redispatch(handle, keys, *op, OpKind::Forward, stack);
    return;
  }
  check_changed(signature, view);
  const c10::SmallVector<c10::IValue, 8> arguments(view.begin(), view.end());
  {
    const RecordedCall recorded;
    redispatch(handle, keys, *op, OpKind::Forward, stack);
  }
  const auto node = make_node<BackwardNode>(family, op, arguments);
  node->set_results(torch::jit::last(*stack, signature.outputs.size()), arguments, node);
}

const char* why_no_second_derivative(const Function& function) {
  if (sees_tensors(function)) return "functions that see tensors whole have no second derivatives: kernels have";
  return "it has no derivative, since that needs a forward derivative of the function too: mark it [Differentiable]";
}

void call_backward_op(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op,
                      const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const Signature& signature = op->signature();
  if (!signature.function.tangents_of.empty()) {
    return call_without_derivative(*op, OpKind::Backward,
                                   "derivatives of the third order are not available: this is a second one", handle,
                                   keys, stack);
  }
  if (op->jvp == nullptr || op->jvp->signature().of(OpKind::Backward) == nullptr) {
    const char* reason = why_no_second_derivative(signature.function);
    return call_without_derivative(*op, OpKind::Backward, reason, handle, keys, stack);
  }
  const auto view = torch::jit::last(*stack, signature.of(OpKind::Backward)->arguments.size());
  if (requiring_grad(*op, OpKind::Backward, view, true) < 0) {
    return redispatch(handle, keys, *op, OpKind::Backward, stack);
  }
  const c10::SmallVector<c10::IValue, 8> arguments(view.begin(), view.end());
  redispatch(handle, keys, *op, OpKind::Backward, stack);
  const auto node = make_node<SecondNode>(family, op, arguments);
  node->set_results(torch::jit::last(*stack, signature.differentiable.size()), node);
}

}  // namespace

void VersionKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // Before the launch: one that ends in an error may have written too.
  bump_versions(handle, torch::jit::last(*stack, handle.schema().arguments().size()));
  handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

void AutogradKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const OperatorOfCall taken(family_);
  const auto& op = taken.get();
  const auto view = arguments_of_call(*op, kind_, *stack);
  const bool is_dual = has_tangent(view);
  c10::SmallVector<c10::IValue, 8> arguments;
  if (is_dual) {
    check_forward_mode(*op, kind_, view);
    if (kind_ == OpKind::Forward && call_with_tangents(family_, *op, stack)) return;
    arguments.assign(view.begin(), view.end());
  }
  switch (kind_) {
    case OpKind::Forward: call_forward(family_, op, handle, keys, stack); break;
    case OpKind::Backward: call_backward_op(family_, op, handle, keys, stack); break;
    case OpKind::Launch:
    case OpKind::LaunchJvp:
    case OpKind::LaunchBackward: call_launch(*op, kind_, handle, keys, stack); break;
  }
  if (is_dual) {
    const auto results = torch::jit::last(*stack, op->signature().of(kind_)->results.size());
    set_tangents(family_, *op, kind_, arguments, results);
  }
}

}  // namespace torch_slang
