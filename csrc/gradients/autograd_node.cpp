#include "gradients/autograd_node.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <mutex>

#include "gradients/derived_calls.h"

namespace torch_slang {

namespace ag = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

namespace {

using ResultsPacker = dynamo::IValuePacker<std::vector<ag::VariableInfo>>;
using EdgesPacker = dynamo::IValuePacker<std::vector<std::optional<ag::InputMetadata>>>;

// For an input whose values nobody looks at: its shape, dtype and device, one element of memory. Saved like any other, so
// that the set of saved tensors does not depend on whether the backward is compiled yet (checkpoints compare two runs).
at::Tensor stand_in(const at::Tensor& tensor) {
  return at::empty({1}, tensor.options()).expand_symint(tensor.sym_sizes());
}

// Which of a node's gradients is this leaf's.
size_t place_of(const Signature& signature, int leaf) {
  const auto& outputs = signature.outputs;
  const auto output = std::find(outputs.begin(), outputs.end(), leaf);
  if (output != outputs.end()) return output - outputs.begin();
  const std::vector<int> changed = changed_leaves(signature);
  return outputs.size() + (std::find(changed.begin(), changed.end(), leaf) - changed.begin());
}

// Calls the backward op. `recorded`: its arguments but for the gradients; `results`: what undefined gradients are like.
ag::variable_list call_backward(const RegisteredFamily& family, const Operator& op, const ag::variable_list& grads,
                                std::vector<c10::IValue> recorded, const std::vector<ag::VariableInfo>& results) {
  const Signature& signature = op.signature();
  ag::variable_list gradients(signature.differentiable.size());
  if (std::none_of(grads.begin(), grads.end(), [](const at::Tensor& g) { return g.defined(); })) return gradients;
  torch::jit::Stack stack;
  auto next = recorded.begin();
  for (const auto& [role, leaf] : signature.of(OpKind::Backward)->arguments) {
    if (role == OpArgument::Role::Gradient) {
      const size_t output = place_of(signature, leaf);
      at::OptionalDeviceGuard guard;
      stack.emplace_back(grads[output].defined() ? grads[output] : results[output].zeros(guard));
    } else {
      stack.push_back(std::move(*next++));
    }
  }
  call_as(family, op, OpKind::Backward, stack);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = std::move(stack[i]).toTensor();
  return gradients;
}

}  // namespace

ag::SavedVariable save_input(const at::Tensor& tensor) {
  const bool needs_copy = tensor.defined() && tensor.is_inference() && !tensor.requires_grad();
  return {needs_copy ? tensor.clone() : tensor, /*is_output=*/false};
}

std::vector<int> changed_leaves(const Signature& signature) {
  std::vector<int> changed;
  for (const int leaf : signature.grad_outputs) {
    if (!signature.function.leaves[leaf].is_output) changed.push_back(leaf);
  }
  return changed;
}

// One edge for each differentiable argument, in the order of the backward op's results.
BackwardNode::BackwardNode(const RegisteredFamily& family, std::shared_ptr<const Operator> op,
                           c10::ArrayRef<c10::IValue> arguments)
    : family_(family), op_(std::move(op)) {
  const Signature& signature = op_->signature();
  const size_t leaves = signature.function.leaves.size();
  saved_.resize(leaves);
  numbers_.resize(leaves);
  const auto& meaning = signature.of(OpKind::Forward)->arguments;
  const auto& differentiable = signature.differentiable;
  const std::vector<bool> unused = op_->unused_inputs(arguments);
  ag::edge_list edges(differentiable.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int leaf = meaning[i].leaf;
    if (meaning[i].role == OpArgument::Role::SampleDims) {
      sample_dims_ = arguments[i];
      continue;
    }
    if (!arguments[i].isTensor()) {
      numbers_[leaf] = arguments[i];
      continue;
    }
    const at::Tensor& tensor = arguments[i].toTensor();
    saved_[leaf] = save_input(unused[leaf] ? stand_in(tensor) : tensor);
    const auto at = std::find(differentiable.begin(), differentiable.end(), leaf);
    if (at == differentiable.end() || !tensor.requires_grad()) continue;
    edges[at - differentiable.begin()] = ag::impl::gradient_edge(tensor);
  }
  set_next_edges(std::move(edges));
}

void BackwardNode::set_results(c10::ArrayRef<c10::IValue> results, c10::ArrayRef<c10::IValue> arguments,
                               const NodePtr<BackwardNode>& self) {
  const Signature& signature = op_->signature();
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i].toTensor();
    results_.emplace_back(result);
    if (signature.function.leaves[signature.outputs[i]].differentiable) {
      ag::set_history(result, self);
    } else {
      add_input_metadata(ag::Node::undefined_input());
    }
  }
  const auto& meaning = signature.of(OpKind::Forward)->arguments;
  for (const int leaf : changed_leaves(signature)) {
    const auto given =
        std::find_if(meaning.begin(), meaning.end(), [&](const OpArgument& a) { return a.leaf == leaf; });
    const at::Tensor& tensor = arguments[given - meaning.begin()].toTensor();
    results_.emplace_back(tensor);
    const auto number = static_cast<uint32_t>(add_input_metadata(tensor));
    ag::impl::rebase_history(tensor, {self, number});
  }
}

std::string BackwardNode::name() const { return "Slang_" + op_->signature().function.name + "_Backward"; }

std::vector<c10::IValue> BackwardNode::recorded_arguments() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<c10::IValue> arguments;
  for (const auto& [role, leaf] : op_->signature().of(OpKind::Backward)->arguments) {
    if (role == OpArgument::Role::Mask) {
      c10::List<bool> mask;
      for (size_t i = 0; i < op_->signature().differentiable.size(); ++i) mask.push_back(task_should_compute_output(i));
      arguments.emplace_back(std::move(mask));
    } else if (role == OpArgument::Role::SampleDims) {
      arguments.push_back(sample_dims_);
    } else if (role == OpArgument::Role::Leaf && numbers_[leaf].isNone()) {
      arguments.emplace_back(saved_[leaf].unpack());
    } else if (role == OpArgument::Role::Leaf) {
      arguments.push_back(numbers_[leaf]);
    }
  }
  return arguments;
}

ag::variable_list BackwardNode::apply(ag::variable_list&& grads) {
  return call_backward(family_, *op_, grads, recorded_arguments(), results_);
}

void BackwardNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& saved : saved_) saved.reset_data();
}

void BackwardNode::compiled_args(dynamo::CompiledNodeArgs& args) const {
  args.collect(reinterpret_cast<uint64_t>(op_.get()));  // another Program, another graph
  for (const auto& saved : saved_) args.collect(saved, /*is_output=*/true);
  for (const auto& number : numbers_) args.collect(number);
  args.collect(sample_dims_);
  args.collect(results_);
}

ag::variable_list record_call(const ag::Node& node, dynamo::SwapSavedVariables& swap, const ag::variable_list& grads,
                              const std::vector<c10::IValue>& arguments, NodeFunction apply) {
  std::vector<at::TypePtr> types;
  for (const auto& value : arguments) types.push_back(value.isTensor() ? at::TensorType::get() : value.type());
  const auto& compiler = dynamo::getPyCompilerInterface();
  const std::string bound = compiler->bind_function(swap.get_py_compiler(), node.name(), std::move(apply), types,
                                                    /*is_custom_function=*/true);
  return compiler->call_function(swap.get_py_compiler(), "apply_functional", bound, grads, arguments,
                                 EdgesPacker::pack(dynamo::get_input_metadata(node.next_edges())));
}

ag::variable_list BackwardNode::apply_with_saved(const ag::variable_list& grads, dynamo::SwapSavedVariables& swap) {
  for (auto& saved : saved_) swap.before(saved);
  for (auto& number : numbers_) swap.before(number);
  swap.before(results_);

  std::vector<c10::IValue> arguments = recorded_arguments();
  arguments.push_back(ResultsPacker::pack(results_));
  const auto call = [&family = family_, op = op_](const ag::variable_list& inputs,
                                                  const std::vector<c10::IValue>& packed) {
    return call_backward(family, *op, inputs, {packed.begin(), packed.end() - 1}, ResultsPacker::unpack(packed.back()));
  };
  ag::variable_list gradients = record_call(*this, swap, grads, arguments, call);

  for (auto& saved : saved_) swap.after(saved);
  for (auto& number : numbers_) swap.after(number);
  swap.after(results_);
  return gradients;
}

}  // namespace torch_slang
