#include "gradients/derivative_arguments.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

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

// Where an argument of f stands among the differentiable ones.
size_t place_of(const Operator& op, int leaf) {
  const auto& all = op.signature().differentiable;
  return static_cast<size_t>(std::find(all.begin(), all.end(), leaf) - all.begin());
}

}  // namespace

std::vector<c10::IValue> arguments_of_backward(const Operator& op, const DerivativeArguments& arguments,
                                               const std::vector<bool>& mask) {
  std::vector<c10::IValue> stack;
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
  return stack;
}

std::vector<c10::IValue> arguments_of_jvp(const Operator& made, const DerivativeArguments& arguments) {
  JvpArguments given(made, arguments);
  std::vector<c10::IValue> stack;
  for (const OpArgument& argument : made.signature().of(OpKind::Forward)->arguments)
    stack.push_back(given.of(argument));
  return stack;
}

std::vector<c10::IValue> arguments_of_jvp_backward(const Operator& op, const DerivativeArguments& arguments,
                                                   const std::vector<bool>& mask) {
  const Operator& made = *op.jvp;
  JvpArguments given(made, arguments);
  std::vector<c10::IValue> stack;
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

std::vector<at::Tensor> gradients_by_input(const Operator& op, std::vector<at::Tensor> all) {
  const Signature& made = op.jvp->signature();
  std::vector<at::Tensor> gradients(op.signature().differentiable.size());
  for (size_t i = 0; i < made.differentiable.size(); ++i) {
    const Leaf& self = made.function.leaves[made.differentiable[i]];
    if (!self.is_tangent) gradients[place_of(op, self.origin)] = std::move(all[i]);
  }
  return gradients;
}

}  // namespace torch_slang
