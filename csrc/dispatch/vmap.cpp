#include "dispatch/vmap.h"

#include <ATen/core/stack.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <c10/util/Exception.h>

#include "dispatch/mapped_call.h"

namespace torch_slang {

namespace functorch = at::functorch;
using torch::jit::Stack;

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
