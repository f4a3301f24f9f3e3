#include "gradients/forward_mode.h"

#include <ATen/ops/_fw_primal.h>
#include <ATen/ops/add.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "gradients/derived_calls.h"

namespace torch_slang {

namespace ag = torch::autograd;

namespace {

bool has_tangent(const c10::IValue& value) { return value.isTensor() && ag::isFwGradDefined(value.toTensor()); }

// Arguments without their tangents, and those.
struct Dual {
  DerivativeArguments values;
  std::vector<at::Tensor> gradient_tangents;  // of a backward's arguments, by leaf
  bool any_leaf = false, any_gradient = false;

  explicit Dual(const Operator& op) : values(op), gradient_tangents(op.signature().function.leaves.size()) {}
};

Dual split(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments, std::vector<bool>& mask) {
  Dual dual(op);
  const auto& meaning = op.signature().of(kind)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto [role, leaf] = meaning[i];
    if (role == OpArgument::Role::Mask) {
      for (const bool wanted : arguments[i].toBoolList()) mask.push_back(wanted);
      continue;
    }
    if (role == OpArgument::Role::SampleDims) {
      dual.values.sample_dims = arguments[i];
      continue;
    }
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined()) {
      dual.values.values[leaf] = arguments[i];
      continue;
    }
    const at::Tensor& tensor = arguments[i].toTensor();
    const bool is_dual = has_tangent(arguments[i]);
    const at::Tensor value = is_dual ? tensor._fw_primal(0) : tensor;
    if (role == OpArgument::Role::Gradient) {
      dual.values.gradients[leaf] = value;
      if (is_dual) dual.gradient_tangents[leaf] = tensor._fw_grad(0);
      dual.any_gradient |= is_dual;
    } else {
      dual.values.values[leaf] = value;
      if (!is_dual || !op.signature().function.leaves[leaf].differentiable) continue;
      dual.values.tangents[leaf] = tensor._fw_grad(0);
      dual.any_leaf = true;
    }
  }
  return dual;
}

void set(const c10::IValue& result, const at::Tensor& tangent) {
  if (result.toTensor().defined() && tangent.defined())
    result.toTensor()._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
}

// The first of `tangents` are those of the results that have a tangent, in their order.
void set_on_results(const Operator& op, c10::ArrayRef<c10::IValue> results, const std::vector<at::Tensor>& tangents) {
  const auto& outputs = op.signature().outputs;
  for (size_t i = 0; i < op.signature().grad_outputs.size(); ++i) {
    const auto at = std::find(outputs.begin(), outputs.end(), op.signature().grad_outputs[i]) - outputs.begin();
    set(results[at], tangents[i]);
  }
}

}  // namespace

bool is_recorded(c10::ArrayRef<c10::IValue> arguments) {
  return c10::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
         });
}

bool has_tangent(c10::ArrayRef<c10::IValue> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) { return has_tangent(value); });
}

void check_forward_mode(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments) {
  const std::string& name = op.signature().qualified(kind);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_launch(kind), name, ": an argument has a tangent, but a launch op is not differentiable",
      op.signature().function.has_forward_derivative && op.signature().function.is_kernel()
          ? ": call " + op.signature().qualified(OpKind::Forward) + ", or the launch of its derivative, " +
                op.signature().qualified(OpKind::LaunchJvp)
          : "");
  TORCH_CHECK_NOT_IMPLEMENTED(op.signature().function.tangents_of.empty(), name,
                              ": forward-mode derivatives of forward-mode derivatives are not available: take one of "
                              "the two derivatives backward, as torch.func.hessian does");
  const auto& meaning = op.signature().of(kind)->arguments;
  const char* reason = op.signature().of(OpKind::Backward) == nullptr ? op.why_no_derivative() : nullptr;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!has_tangent(arguments[i])) continue;
    TORCH_CHECK_NOT_IMPLEMENTED(reason == nullptr, name, ": an argument has a tangent, but ", reason);
    const Leaf& leaf = op.signature().function.leaves[meaning[i].leaf];
    TORCH_CHECK(leaf.no_gradient.empty(), name, ": expected ", leaf.path, " to be a constant, since ", leaf.no_gradient,
                ", but got a tensor with a tangent: make it IDifferentiable, or the parameter no_diff");
    TORCH_CHECK_NOT_IMPLEMENTED(
        !sees_tensors(op.signature().function) || !(leaf.differentiable || leaf.is_written()), name, ": ", leaf.name,
        " has a tangent, but functions that see tensors whole have no forward-mode derivatives: kernels have");
    TORCH_CHECK_NOT_IMPLEMENTED(!leaf.differentiable || op.jvp != nullptr, name, ": ", leaf.name,
                                " has a tangent, but the ", op.signature().function.is_kernel() ? "kernel" : "function",
                                " has no forward derivative: mark it [Differentiable]");
  }
}

bool call_with_tangents(const RegisteredFamily& family, const Operator& op, torch::jit::Stack* stack) {
  if (op.dual == nullptr || family.dual() == nullptr) return false;
  const auto arguments = torch::jit::last(*stack, op.signature().of(OpKind::Forward)->arguments.size());
  if (is_recorded(arguments)) return false;
  std::vector<bool> mask;
  const Dual dual = split(op, OpKind::Forward, arguments, mask);
  if (!dual.any_leaf) return false;
  std::vector<at::Tensor> all;
  try {
    all = call_dual(family, op, dual.values);
  } catch (const c10::Error&) {
    refuse(op, OpKind::Forward, arguments);
    throw;
  }
  torch::jit::drop(*stack, arguments.size());
  const size_t tangents = op.signature().grad_outputs.size();
  for (size_t i = tangents; i < all.size(); ++i) stack->emplace_back(std::move(all[i]));
  set_on_results(op, torch::jit::last(*stack, all.size() - tangents), all);
  return true;
}

void set_tangents(const RegisteredFamily& family, const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments,
                  c10::ArrayRef<c10::IValue> results) {
  std::vector<bool> mask;
  Dual dual = split(op, kind, arguments, mask);
  if (kind == OpKind::Forward) {
    if (!dual.any_leaf) return;
    return set_on_results(op, results, call_jvp(family, op, dual.values));
  }
  std::vector<at::Tensor> tangents(results.size());
  if (dual.any_leaf) tangents = call_jvp_backward(family, op, dual.values, mask);
  if (dual.any_gradient) {
    for (const int leaf : op.signature().grad_outputs) {
      at::Tensor& tangent = dual.gradient_tangents[leaf];
      dual.values.gradients[leaf] = tangent.defined() ? tangent : at::zeros_like(dual.values.gradients[leaf]);
    }
    const auto more = call_backward(family, op, dual.values, mask);
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (more[i].defined()) tangents[i] = tangents[i].defined() ? at::add(tangents[i], more[i]) : more[i];
    }
  }
  for (size_t i = 0; i < tangents.size(); ++i) set(results[i], tangents[i]);
}

}  // namespace torch_slang
