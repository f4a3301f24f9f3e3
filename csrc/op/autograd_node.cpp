#include "op/autograd_node.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <mutex>

#include "op/arguments.h"
#include "op/run.h"

namespace torch_slang {

namespace ag = torch::autograd;

namespace {

// For an input whose values nobody looks at: its shape, dtype and device, one element of memory.
at::Tensor stand_in(const ag::VariableInfo& info) {
  return at::empty({1}, at::TensorOptions().dtype(info.scalar_type).device(info.device)).expand_symint(info.size);
}

}  // namespace

// One edge for each differentiable argument, in the order of the backward op's results.
BackwardNode::BackwardNode(const RegisteredFamily& family, std::shared_ptr<const Operator> op,
                           c10::ArrayRef<c10::IValue> arguments)
    : family_(family), op_(std::move(op)) {
  const size_t leaves = op_->function.leaves.size();
  saved_.resize(leaves);
  unused_.resize(leaves);
  numbers_.resize(leaves);
  const auto& meaning = op_->signature(OpKind::Forward)->arguments;
  const auto [types, device] = types_and_device(*op_, OpKind::Forward, arguments);
  const auto backward = op_->kernels.any_backward(types, device);
  ag::edge_list edges(op_->differentiable.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int leaf = meaning[i].leaf;
    if (!arguments[i].isTensor()) {
      numbers_[leaf] = arguments[i];
      continue;
    }
    const at::Tensor& tensor = arguments[i].toTensor();
    if (backward != nullptr && backward->unused[leaf]) {
      unused_[leaf] = ag::VariableInfo(tensor);
    } else {
      saved_[leaf] = ag::SavedVariable(tensor, /*is_output=*/false);
    }
    const auto at = std::find(op_->differentiable.begin(), op_->differentiable.end(), leaf);
    if (at == op_->differentiable.end() || !tensor.requires_grad()) continue;
    edges[at - op_->differentiable.begin()] = ag::impl::gradient_edge(tensor);
  }
  set_next_edges(std::move(edges));
}

void BackwardNode::set_results(c10::ArrayRef<c10::IValue> results, const NodePtr<BackwardNode>& self) {
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i].toTensor();
    results_.emplace_back(result);
    if (op_->function.leaves[op_->outputs[i]].differentiable) {
      ag::set_history(result, self);
    } else {
      add_input_metadata(ag::Node::undefined_input());
    }
  }
}

std::string BackwardNode::name() const { return "Slang_" + op_->function.name + "_Backward"; }

std::vector<c10::IValue> BackwardNode::backward_arguments(const ag::variable_list& grads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<c10::IValue> arguments;
  for (const auto& [role, leaf] : op_->signature(OpKind::Backward)->arguments) {
    if (role == OpArgument::Role::GradOutput) {
      const size_t output = std::find(op_->outputs.begin(), op_->outputs.end(), leaf) - op_->outputs.begin();
      at::OptionalDeviceGuard guard;
      arguments.emplace_back(grads[output].defined() ? grads[output] : results_[output].zeros(guard));
    } else if (role == OpArgument::Role::Mask) {
      c10::List<bool> mask;
      for (size_t i = 0; i < op_->differentiable.size(); ++i) mask.push_back(task_should_compute_output(i));
      arguments.emplace_back(std::move(mask));
    } else if (!numbers_[leaf].isNone()) {
      arguments.push_back(numbers_[leaf]);
    } else if (unused_[leaf].is_empty) {
      arguments.emplace_back(saved_[leaf].unpack());
    } else {
      arguments.emplace_back(stand_in(unused_[leaf]));
    }
  }
  return arguments;
}

ag::variable_list BackwardNode::apply(ag::variable_list&& grads) {
  ag::variable_list gradients(num_outputs());
  if (std::none_of(grads.begin(), grads.end(), [](const at::Tensor& g) { return g.defined(); })) return gradients;
  torch::jit::Stack stack = backward_arguments(grads);
  if (family_.has_schemas_of(*op_)) {
    const PinnedOperator pin(family_, *op_);
    family_.handle(OpKind::Backward).callBoxed(&stack);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = std::move(stack[i]).toTensor();
  } else {  // the name was reloaded with other arguments: what was recorded runs as it was recorded
    const Results results = run(*op_, OpKind::Backward, stack);
    std::copy(results.begin(), results.end(), gradients.begin());
  }
  return gradients;
}

void BackwardNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& saved : saved_) saved.reset_data();
}

void BackwardNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const {
  args.collect(reinterpret_cast<uint64_t>(op_.get()));  // another Program, another graph
  for (const auto& saved : saved_) args.collect(saved, /*is_output=*/true);
  for (const auto& number : numbers_) args.collect(number);
  args.collect(unused_);
  args.collect(results_);
}

ag::variable_list BackwardNode::apply_with_saved(const ag::variable_list& inputs,
                                                 torch::dynamo::autograd::SwapSavedVariables& swap) {
  for (auto& saved : saved_) swap.before(saved);
  for (auto& number : numbers_) swap.before(number);
  swap.before(unused_);
  swap.before(results_);
  ag::variable_list gradients = apply(ag::variable_list(inputs));
  for (auto& saved : saved_) swap.after(saved);
  for (auto& number : numbers_) swap.after(number);
  swap.after(unused_);
  swap.after(results_);
  return gradients;
}

}  // namespace torch_slang
