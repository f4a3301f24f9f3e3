#include "dispatch/dual_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/stack.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>

#include <algorithm>
#include <iterator>

#include "dispatch/vmap.h"
#include "gradients/derived_calls.h"
#include "gradients/forward_mode.h"

namespace torch_slang {
namespace {

using torch::jit::Stack;

size_t count_arguments(const Operator& op) { return op.signature().of(OpKind::Forward)->arguments.size(); }

// The function and `<name>_jvp` in place of the operator of both.
void call_apart(const RegisteredFamily& dual, size_t count, Stack* stack) {
  const RegisteredFamily& family = *dual.plain();
  const auto op = family.current();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(count);
  Stack values(first, first + static_cast<std::ptrdiff_t>(count_arguments(*op)));
  Stack tangents(first, stack->end());
  torch::jit::drop(*stack, count);
  call_as(family, *op, OpKind::Forward, values);
  call_as(*family.jvp(), *op->jvp, OpKind::Forward, tangents);
  stack->insert(stack->end(), std::make_move_iterator(tangents.begin()), std::make_move_iterator(tangents.end()));
  stack->insert(stack->end(), std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()));
}

}  // namespace

void DualAutogradKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const auto op = family_.current();
  const auto arguments = arguments_of_call(*op, OpKind::Forward, *stack);
  if (has_tangent(arguments) || is_recorded(arguments)) return call_apart(family_, arguments.size(), stack);
  const at::AutoDispatchBelowADInplaceOrView guard;
  redispatch_boxed(handle, keys & c10::after_autograd_keyset, *op, OpKind::Forward, *stack);
}

void DualVmapKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const auto op = family_.current();
  const auto arguments = arguments_of_call(*op, OpKind::Forward, *stack);
  const auto values = arguments.slice(0, count_arguments(*family_.plain()->current()));
  const auto layer = at::functorch::maybeCurrentDynamicLayer();
  const bool maps_values = !layer || std::any_of(values.begin(), values.end(), [&](const c10::IValue& value) {
    return value.isTensor() && at::functorch::isBatchedAtLevel(value.toTensor(), layer->layerId());
  });
  if (!maps_values) return call_apart(family_, arguments.size(), stack);
  pack_arguments(*op, OpKind::Forward, *stack);
  VmapKernel(family_, OpKind::Forward)(handle, keys, stack);
}

void DualBatchedKernel::operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
  call_apart(family_, arguments_of_call(*family_.current(), OpKind::Forward, *stack).size(), stack);
}

}  // namespace torch_slang
