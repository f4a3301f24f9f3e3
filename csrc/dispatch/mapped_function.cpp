#include "dispatch/mapped_function.h"

#include <ATen/core/stack.h>
#include <ATen/native/TypeProperties.h>

#include <algorithm>

#include "arguments/generated_arguments.h"
#include "dispatch/derived_calls.h"
#include "kernel/view_packing.h"

namespace torch_slang {
namespace {

// PyTorch's result type of tensors, of which those with one element for each sample weigh as little as one alone.
void add(at::native::ResultTypeState& state, c10::ScalarType type, bool is_single) {
  c10::ScalarType& mine = is_single ? state.zeroResult : state.dimResult;
  mine = mine == c10::ScalarType::Undefined ? type : c10::promoteTypes(mine, type);
}

}  // namespace

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

bool MappedFunction::is_single(size_t i) const { return outer_rank(i) == 0 && !leaf(i).is_whole; }

// Whatever the other arguments' types.
std::optional<c10::ScalarType> MappedFunction::decided_type(int parameter) const {
  const Function& function = op_.signature().function;
  if (!function.given_types.empty() && function.given_types[parameter])
    return scalar_type(*function.given_types[parameter]);
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (is_input(i) && leaf(i).is_whole && leaf(i).element.type_parameter == parameter)
      return arguments_.tensor(i).scalar_type();
  }
  return std::nullopt;
}

// One element alone weighs little in promotion, and may be on the host. One for each sample has a dimension, but is to be no
// different: it is converted first.
void MappedFunction::convert_singles() {
  c10::Device device = c10::kCPU;
  c10::SmallVector<at::native::ResultTypeState, 4> states(op_.signature().function.type_parameters.size());
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (!arguments_.is_tensor(i)) continue;
    const at::Tensor tensor = arguments_.tensor(i);
    if (!tensor.device().is_cpu()) device = tensor.device();
    const int parameter = leaf(i).element.type_parameter;
    if (is_input(i) && parameter >= 0) add(states[parameter], tensor.scalar_type(), is_single(i));
  }
  for (size_t i = 0; i < arguments_.count(); ++i) {
    if (!is_input(i) || !is_single(i) || !arguments_.is_mapped(i)) continue;
    const at::Tensor tensor = arguments_.tensor(i);
    c10::ScalarType type = tensor.scalar_type();
    if (const int parameter = leaf(i).element.type_parameter; parameter >= 0) {
      const c10::ScalarType decided = decided_type(parameter).value_or(at::native::result_type(states[parameter]));
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
    if (arguments_.is_tensor(i) && !leaf(i).is_whole) rank = std::max(rank, outer_rank(i));
    if (meaning(i).role == OpArgument::Role::Leaf && leaf(i).kind == LeafKind::Generated)
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

}  // namespace torch_slang
