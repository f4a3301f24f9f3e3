#include "dispatch/vmap.h"

#include <ATen/core/stack.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "functions/generated_arguments.h"
#include "functions/promotion.h"
#include "gradients/derived_calls.h"
#include "operators/sampled_operator.h"
#include "operators/view_packing.h"

namespace torch_slang {

namespace functorch = at::functorch;
using torch::jit::Stack;

namespace {

// The operator for samples that runs as `op` does, which may be one that was replaced since.
std::shared_ptr<const Operator> sampled(const RegisteredFamily& of_samples, const std::shared_ptr<const Operator>& op) {
  const auto current = of_samples.current();
  const auto* known = dynamic_cast<const SampledOperator*>(current.get());
  return known != nullptr && &known->plain() == op.get() ? current : std::make_shared<SampledOperator>(op);
}

void call_kernel(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 MappedArguments& arguments, Stack* stack) {
  for (size_t i = 0; i < arguments.count(); ++i) {
    if (arguments.is_tensor(i) && !arguments.is_mapped(i)) arguments.expand(i);
  }
  const RegisteredFamily& of_samples = *family.of_samples();
  const bool has_samples = &of_samples == &family;  // of inner levels
  if (has_samples) {
    stack->back() = stack->back().toInt() + 1;
  } else {
    stack->emplace_back(int64_t{1});
  }
  const auto runs = has_samples ? op : sampled(of_samples, op);
  const auto first = stack->end() - static_cast<int64_t>(runs->signature().of(kind)->arguments.size());
  Stack call(std::make_move_iterator(first), std::make_move_iterator(stack->end()));
  stack->erase(first, stack->end());
  call_as(of_samples, *runs, kind, call);
  stack->insert(stack->end(), std::make_move_iterator(call.begin()), std::make_move_iterator(call.end()));
}

// The results of a call without samples. The meta device says what the result of one sample would be like.
Results results_of_none(const Operator& op, OpKind kind, const MappedArguments& arguments, const Stack& stack) {
  std::vector<c10::IValue> one(stack.end() - static_cast<int64_t>(arguments.count()), stack.end());
  c10::Device device = c10::kCPU;
  for (size_t i = 0; i < arguments.count(); ++i) {
    if (!arguments.is_tensor(i)) continue;
    const at::Tensor tensor = arguments.tensor(i);
    if (!tensor.device().is_cpu()) device = tensor.device();
    const auto sizes = tensor.sym_sizes().slice(arguments.is_mapped(i) ? 1 : 0);
    one[i] = at::empty_symint(sizes, tensor.options().device(c10::kMeta));
  }
  Results results = op.run_meta(kind, one);
  for (at::Tensor& result : results) {
    if (!result.defined()) continue;
    c10::SymDimVector sizes{0};
    sizes.append(result.sym_sizes().begin(), result.sym_sizes().end());
    result = at::empty_symint(sizes, result.options().device(device));
  }
  return results;
}

// Whether this call cannot be done by broadcasting. A tensor that the function sees whole does not broadcast.
bool needs_loop(const Operator& op, OpKind kind, const MappedArguments& arguments) {
  const Function& function = op.signature().function;
  if (!sees_tensors(function)) return false;
  if (kind == OpKind::Backward) return true;  // each sample has its own gradient of a tensor
  for (size_t i = 0; i < arguments.count(); ++i) {
    const Leaf& leaf = function.leaves[op.signature().of(kind)->arguments[i].leaf];
    if (leaf.is_whole() && (arguments.is_mapped(i) || leaf.is_written())) return true;
  }
  return false;
}

// Calls the op for each sample in turn. Puts the stacked results, samples in front, in place of the arguments on the stack.
void call_in_loop(const c10::OperatorHandle& handle, const Operator& op, OpKind kind, const MappedArguments& arguments,
                  Stack* stack) {
  const size_t results = op.signature().of(kind)->results.size();
  const int64_t samples = arguments.size().guard_int(__FILE__, __LINE__);
  std::vector<std::vector<at::Tensor>> rows(results);  // by result, of each sample
  for (int64_t sample = 0; sample < samples; ++sample) {
    Stack one(stack->end() - static_cast<int64_t>(arguments.count()), stack->end());
    for (size_t i = 0; i < arguments.count(); ++i) {
      if (arguments.is_mapped(i)) one[i] = arguments.tensor(i).select(0, sample);
    }
    call_boxed(handle, op, kind, one);
    for (size_t i = 0; i < results; ++i) rows[i].push_back(std::move(one[i]).toTensor());
  }
  Results all = samples == 0 ? results_of_none(op, kind, arguments, *stack) : Results(results);
  for (size_t i = 0; samples > 0 && i < results; ++i) {
    if (rows[i].front().defined()) all[i] = at::stack(rows[i]);
  }
  torch::jit::drop(*stack, arguments.count());
  for (at::Tensor& result : all) stack->emplace_back(std::move(result));
}

// A plain function's call: arranged so that it broadcasts over the samples.
class MappedFunction {
 public:
  MappedFunction(const Operator& op, OpKind kind, MappedArguments& arguments);

  // Calls the op, and gives gradients the shape and the type of their arguments. `given`: the arguments before, for messages.
  void call(const c10::OperatorHandle& handle, c10::ArrayRef<c10::IValue> given, torch::jit::Stack* stack) const;

 private:
  // How a leaf's tensor was changed before the call.
  struct Change {
    size_t added = 0;  // dimensions of size 1 between the samples and the others
    bool is_converted = false;
    at::TensorOptions before;
  };

  const OpArgument& meaning(size_t i) const { return op_.signature().of(kind_)->arguments[i]; }
  const Leaf& leaf(size_t i) const { return op_.signature().function.leaves[meaning(i).leaf]; }
  size_t outer_rank(size_t i) const;
  bool is_input(size_t i) const;
  bool is_single(size_t i) const;
  void convert_singles();
  void convert(size_t i, const at::TensorOptions& options);
  void align();

  const Operator& op_;
  const OpKind kind_;
  MappedArguments& arguments_;
  std::vector<Change> changes_;  // by leaf
};

MappedFunction::MappedFunction(const Operator& op, OpKind kind, MappedArguments& arguments)
    : op_(op), kind_(kind), arguments_(arguments), changes_(op.signature().function.leaves.size()) {
  convert_singles();
  align();
}

// Of one sample, elements excluded. Fewer than none: the call itself refuses it.
size_t MappedFunction::outer_rank(size_t i) const {
  const int64_t rank = arguments_.tensor(i).dim() - static_cast<int64_t>(arguments_.is_mapped(i)) -
                       static_cast<int64_t>(leaf(i).element.shape.size());
  return static_cast<size_t>(std::max<int64_t>(rank, 0));
}

bool MappedFunction::is_input(size_t i) const {
  return arguments_.is_tensor(i) && meaning(i).role != OpArgument::Role::Gradient && !leaf(i).is_output;
}

bool MappedFunction::is_single(size_t i) const { return outer_rank(i) == 0 && !leaf(i).is_whole(); }

// One element alone weighs little in promotion, and may be on the host. One for each sample has a dimension, but is to be no
// different: it is converted first.
void MappedFunction::convert_singles() {
  c10::Device device = c10::kCPU;
  c10::SmallVector<PromotedInput, 8> inputs;
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (!arguments_.is_tensor(i)) continue;
    const at::Tensor tensor = arguments_.tensor(i);
    if (!tensor.device().is_cpu()) device = tensor.device();
    if (is_input(i)) inputs.push_back({leaf(i), tensor.scalar_type(), !is_single(i)});
  }
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (!is_input(i) || !is_single(i) || !arguments_.is_mapped(i)) continue;
    const at::Tensor tensor = arguments_.tensor(i);
    c10::ScalarType type = tensor.scalar_type();
    if (const int parameter = leaf(i).element.type_parameter; parameter >= 0) {
      const c10::ScalarType decided = *type_of_parameter(op_.signature().function, parameter, inputs);
      if (c10::isFloatingType(decided) == c10::isFloatingType(type)) type = decided;
    }
    if (type != tensor.scalar_type() || device != tensor.device())
      convert(i, tensor.options().dtype(type).device(device));
  }
}

void MappedFunction::convert(size_t i, const at::TensorOptions& options) {
  Change& change = changes_[meaning(i).leaf];
  change.is_converted = true;
  change.before = arguments_.tensor(i).options();
  arguments_.set(i, arguments_.tensor(i).to(options));
}

// A forward broadcasts arguments that all samples share. In other calls each sample has its own gradient of them, and a tensor
// given for a result must have the whole result's shape.
void MappedFunction::align() {
  const bool broadcasts = kind_ == OpKind::Forward;
  size_t rank = 0;
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (arguments_.is_tensor(i) && !leaf(i).is_whole()) rank = std::max(rank, outer_rank(i));
    if (meaning(i).role == OpArgument::Role::Leaf && leaf(i).is_generated())
      rank = std::max(rank, read_generated(op_.signature().qualified(kind_), leaf(i), arguments_.value(i)).rank());
  }
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (!arguments_.is_tensor(i) || (broadcasts && !arguments_.is_mapped(i))) continue;
    const size_t added = is_input(i) ? rank - outer_rank(i) : 0;
    if (!arguments_.is_mapped(i)) arguments_.expand(i);
    at::Tensor tensor = arguments_.tensor(i);
    for (size_t k = 0; k < added; ++k) tensor = tensor.unsqueeze(1);
    arguments_.set(i, std::move(tensor));
    if (is_input(i)) changes_[meaning(i).leaf].added = added;
  }
}

void MappedFunction::call(const c10::OperatorHandle& handle, c10::ArrayRef<c10::IValue> given,
                          torch::jit::Stack* stack) const {
  try {
    call_boxed(handle, op_, kind_, *stack);
  } catch (const c10::Error&) {
    refuse(op_, kind_, given);
    throw;
  }
  if (kind_ != OpKind::Backward) return;
  const auto& leaves = op_.signature().of(kind_)->results;
  for (size_t i = 0; i < leaves.size(); ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, leaves.size());
    if (!value.toTensor().defined()) continue;
    const Change& change = changes_[leaves[i]];
    at::Tensor gradient = value.toTensor();
    for (size_t k = 0; k < change.added; ++k) gradient = gradient.squeeze(1);
    value = change.is_converted ? gradient.to(change.before) : gradient;
  }
}

}  // namespace

void call_mapped(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 const c10::OperatorHandle& handle, MappedArguments& arguments, c10::ArrayRef<c10::IValue> given,
                 Stack* stack) {
  arguments.check_written(op->signature().qualified(kind), *op->signature().of(kind)->schema);
  if (op->signature().function.is_kernel()) {
    call_kernel(family, op, kind, arguments, stack);
  } else if (needs_loop(*op, kind, arguments)) {
    call_in_loop(handle, *op, kind, arguments, stack);
  } else {
    MappedFunction function(*op, kind, arguments);
    function.call(handle, given, stack);
  }
}

void VmapKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto layer = functorch::maybeCurrentDynamicLayer();
  const OperatorOfCall taken(family_);
  const auto& op = taken.get();
  TORCH_CHECK(layer.has_value(), op->signature().qualified(kind_),
              ": a tensor of a torch.vmap that has ended was given: return it from the vmapped function instead");
  const auto call = arguments_of_call(*op, kind_, *stack);
  const c10::SmallVector<c10::IValue, 8> given(call.begin(), call.end());
  const int64_t level = layer->layerId();
  MappedArguments arguments(stack, given.size(), [&](const at::Tensor& tensor) {
    const auto [value, dimension] = functorch::unwrapTensorAtLevel(tensor, level);
    return std::pair<at::Tensor, std::optional<int64_t>>(value, dimension);
  });
  if (!arguments.any()) {  // a tensor of an outer level
    call_boxed(handle, *op, kind_, *stack);
    return;
  }
  call_mapped(family_, op, kind_, handle, arguments, given, stack);
  wrap_results(stack, op->signature().of(kind_)->results.size(),
               [&](const at::Tensor& result) { return functorch::makeBatched(result, 0, level); });
}

}  // namespace torch_slang
