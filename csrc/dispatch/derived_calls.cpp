#include "dispatch/derived_calls.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <iterator>

#include "dispatch/dispatched_call.h"

namespace torch_slang {
namespace {

// Arguments of the operators of f_jvp but for the mask; `made`: whose leaves say which of f's they are.
class JvpArguments {
 public:
  JvpArguments(const Operator& made, const DerivativeArguments& arguments) : made_(made), arguments_(arguments) {}

  c10::IValue of(const OpArgument& argument) {
    if (argument.role == OpArgument::Role::SampleDims) return arguments_.sample_dims;
    const Leaf& leaf = made_.signature().function.leaves[argument.leaf];
    if (argument.role == OpArgument::Role::Gradient) return arguments_.gradients[leaf.origin];
    return leaf.is_tangent ? c10::IValue(tangent(leaf.origin)) : arguments_.values[leaf.origin];
  }

 private:
  at::Tensor tangent(int leaf) {
    const at::Tensor& tangent = arguments_.tangents[leaf];
    return tangent.defined() ? tangent : no_tangent(arguments_.values[leaf].toTensor());
  }

  // One element of memory, for all of a type.
  at::Tensor no_tangent(const at::Tensor& tensor) {
    const bool is_new = !zero_.defined() || zero_.dtype() != tensor.dtype() || zero_.device() != tensor.device();
    if (is_new) zero_ = at::zeros({}, tensor.options());
    return tensor.dim() == 0 ? zero_ : zero_.expand_symint(tensor.sym_sizes());
  }

  const Operator& made_;
  const DerivativeArguments& arguments_;
  at::Tensor zero_;
};

c10::List<bool> mask_of(const std::vector<bool>& wanted) {
  c10::List<bool> mask;
  for (const bool one : wanted) mask.push_back(one);
  return mask;
}

std::vector<at::Tensor> tensors_on(torch::jit::Stack& stack) {
  std::vector<at::Tensor> tensors;
  for (auto& value : stack) tensors.push_back(std::move(value).toTensor());
  return tensors;
}

// Where an argument of f stands among the differentiable ones.
size_t place_of(const Operator& op, int leaf) {
  const auto& all = op.signature().differentiable;
  return static_cast<size_t>(std::find(all.begin(), all.end(), leaf) - all.begin());
}

// `made`: of tangents, alone or with values.
torch::jit::Stack arguments_of_jvp(const Operator& made, const DerivativeArguments& arguments) {
  JvpArguments given(made, arguments);
  torch::jit::Stack stack;
  for (const OpArgument& argument : made.signature().of(OpKind::Forward)->arguments)
    stack.push_back(given.of(argument));
  return stack;
}

torch::jit::Stack arguments_of_jvp_backward(const Operator& op, const DerivativeArguments& arguments,
                                            const std::vector<bool>& mask) {
  const Operator& made = *op.jvp;
  JvpArguments given(made, arguments);
  torch::jit::Stack stack;
  for (const OpArgument& argument : made.signature().of(OpKind::Backward)->arguments) {
    if (argument.role != OpArgument::Role::Mask) {
      stack.push_back(given.of(argument));
      continue;
    }
    std::vector<bool> wanted;
    for (const int leaf : made.signature().differentiable) {
      const Leaf& self = made.signature().function.leaves[leaf];
      wanted.push_back(!self.is_tangent && mask[place_of(op, self.origin)]);
    }
    stack.emplace_back(mask_of(wanted));
  }
  return stack;
}

// `all`: the gradients of f_jvp's inputs. Leaves out those of tangents, and orders the rest as f's inputs.
std::vector<at::Tensor> gradients_by_input(const Operator& op, std::vector<at::Tensor> all) {
  const Signature& made = op.jvp->signature();
  std::vector<at::Tensor> gradients(op.signature().differentiable.size());
  for (size_t i = 0; i < made.differentiable.size(); ++i) {
    const Leaf& self = made.function.leaves[made.differentiable[i]];
    if (!self.is_tangent) gradients[place_of(op, self.origin)] = std::move(all[i]);
  }
  return gradients;
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
  torch::jit::Stack stack;
  for (const auto& [role, leaf] : op.signature().of(OpKind::Backward)->arguments) {
    if (role == OpArgument::Role::Mask) {
      stack.emplace_back(mask_of(mask));
    } else if (role == OpArgument::Role::Gradient) {
      stack.emplace_back(arguments.gradients[leaf]);
    } else if (role == OpArgument::Role::SampleDims) {
      stack.push_back(arguments.sample_dims);
    } else {
      stack.push_back(arguments.values[leaf]);
    }
  }
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
  const auto end = results->end() - static_cast<std::ptrdiff_t>(op.jvp->signature().outputs.size());
  return TangentsAndGradients{{end, results->end()}, gradients_by_input(op, {results->begin(), end})};
}

}  // namespace torch_slang
