#include "gradients/second_node.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <mutex>

#include "torch_slang/error.h"

namespace torch_slang {

namespace ag = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

namespace {

// Edges: one for each gradient of an output, in the order of grad_outputs, then one for each differentiable input.
ag::variable_list call_second(const RegisteredFamily& family, const Operator& op, const ag::variable_list& grads,
                              const std::vector<c10::IValue>& recorded) {
  const size_t outputs = op.signature().grad_outputs.size();
  ag::variable_list results(outputs + op.signature().differentiable.size());
  if (std::none_of(grads.begin(), grads.end(), [](const at::Tensor& g) { return g.defined(); })) return results;
  DerivativeArguments arguments(op);
  auto next = recorded.begin();
  for (const auto& [role, leaf] : op.signature().of(OpKind::Backward)->arguments) {
    if (role == OpArgument::Role::Mask) continue;
    if (role == OpArgument::Role::Gradient)
      arguments.gradients[leaf] = next->toTensor();
    else if (role == OpArgument::Role::SampleDims)
      arguments.sample_dims = *next;
    else
      arguments.values[leaf] = *next;
    ++next;
  }
  const c10::List<bool> wanted = next->toBoolList();
  for (size_t i = 0; i < grads.size(); ++i) arguments.tangents[op.signature().differentiable[i]] = grads[i];
  bool any_output = false, any_input = false;
  std::vector<bool> mask;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= outputs) mask.push_back(wanted[i]);
    (i < outputs ? any_output : any_input) |= wanted[i];
  }
  auto both = any_output && any_input ? call_jvp_and_backward(op, arguments, mask) : std::nullopt;
  if (any_output) {
    const auto tangents = both ? std::move(both->tangents) : call_jvp(family, op, arguments);
    for (size_t i = 0; i < outputs; ++i) {
      if (wanted[i]) results[i] = tangents[i];
    }
  }
  if (any_input) {
    auto gradients = both ? std::move(both->gradients) : call_jvp_backward(family, op, arguments, mask);
    std::move(gradients.begin(), gradients.end(), results.begin() + static_cast<std::ptrdiff_t>(outputs));
  }
  return results;
}

}  // namespace

SecondNode::SecondNode(const RegisteredFamily& family, std::shared_ptr<const Operator> op,
                       c10::ArrayRef<c10::IValue> arguments)
    : family_(family), op_(std::move(op)), saved_(arguments.size()), numbers_(arguments.size()) {
  const size_t outputs = op_->signature().grad_outputs.size();
  ag::edge_list edges(outputs + op_->signature().differentiable.size());
  const auto& meaning = op_->signature().of(OpKind::Backward)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto [role, leaf] = meaning[i];
    if (role == OpArgument::Role::Mask) continue;
    if (!arguments[i].isTensor()) {
      numbers_[i] = arguments[i];
      continue;
    }
    const at::Tensor& tensor = arguments[i].toTensor();
    saved_[i] = save_input(tensor);
    const bool is_gradient = role == OpArgument::Role::Gradient;
    const auto& leaves = is_gradient ? op_->signature().grad_outputs : op_->signature().differentiable;
    const auto at = std::find(leaves.begin(), leaves.end(), leaf);
    if (at == leaves.end() || !tensor.defined() || !tensor.requires_grad()) continue;
    edges[(is_gradient ? 0 : outputs) + static_cast<size_t>(at - leaves.begin())] = ag::impl::gradient_edge(tensor);
  }
  set_next_edges(std::move(edges));
}

void SecondNode::set_results(c10::ArrayRef<c10::IValue> results, const NodePtr<SecondNode>& self) {
  for (const c10::IValue& value : results) {
    const at::Tensor& result = value.toTensor();
    if (result.defined()) {
      ag::set_history(result, self);
    } else {
      add_input_metadata(ag::Node::undefined_input());
    }
  }
}

std::string SecondNode::name() const { return "Slang_" + op_->signature().function.name + "_BackwardBackward"; }

std::vector<c10::IValue> SecondNode::recorded_arguments() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<c10::IValue> arguments;
  const auto& meaning = op_->signature().of(OpKind::Backward)->arguments;
  for (size_t i = 0; i < meaning.size(); ++i) {
    if (meaning[i].role == OpArgument::Role::Mask) continue;
    arguments.push_back(numbers_[i].isNone() ? c10::IValue(saved_[i].unpack()) : numbers_[i]);
  }
  c10::List<bool> wanted;
  for (size_t i = 0; i < num_outputs(); ++i) wanted.push_back(task_should_compute_output(i));
  arguments.emplace_back(std::move(wanted));
  return arguments;
}

ag::variable_list SecondNode::apply(ag::variable_list&& grads) {
  try {
    return call_second(family_, *op_, grads, recorded_arguments());
  } catch (const CompileError& error) {
    throw_compile_error(op_->signature().qualified(OpKind::Backward),
                        ": it has no double backward: ", error.what_without_backtrace());
  }
}

void SecondNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& saved : saved_) saved.reset_data();
}

void SecondNode::compiled_args(dynamo::CompiledNodeArgs& args) const {
  args.collect(reinterpret_cast<uint64_t>(op_.get()));  // another Program, another graph
  for (const auto& saved : saved_) args.collect(saved, /*is_output=*/true);
  for (const auto& number : numbers_) args.collect(number);
}

ag::variable_list SecondNode::apply_with_saved(const ag::variable_list& grads, dynamo::SwapSavedVariables& swap) {
  for (auto& saved : saved_) swap.before(saved);
  for (auto& number : numbers_) swap.before(number);
  const auto call = [&family = family_, op = op_](const ag::variable_list& inputs,
                                                  const std::vector<c10::IValue>& recorded) {
    return call_second(family, *op, inputs, recorded);
  };
  ag::variable_list gradients = record_call(*this, swap, grads, recorded_arguments(), call);
  for (auto& saved : saved_) swap.after(saved);
  for (auto& number : numbers_) swap.after(number);
  return gradients;
}

}  // namespace torch_slang
