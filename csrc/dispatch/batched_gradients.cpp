#include "dispatch/batched_gradients.h"

#include <ATen/LegacyVmapTransforms.h>
#include <ATen/core/stack.h>

#include "dispatch/vmap.h"

namespace torch_slang {

using torch::jit::Stack;

// The mapped dimensions of all levels become one dimension of the call; its results have the levels again.
void BatchedGradientsKernel::operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::Batched);
  const OperatorOfCall taken(family_);
  const auto& op = taken.get();
  const auto call = arguments_of_call(*op, kind_, *stack);
  const c10::SmallVector<c10::IValue, 8> given(call.begin(), call.end());
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : given) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
  }
  const auto views = at::MultiBatchVmapTransform::logicalToPhysical(tensors);
  const int64_t levels = views.front().numBatchDims();
  const at::Tensor& first = views.front().tensor();
  const c10::SymDimVector sizes(first.sym_sizes().begin(), first.sym_sizes().begin() + levels);
  size_t next = 0;  // arguments are unwrapped in their order
  MappedArguments arguments(stack, given.size(), [&](const at::Tensor& tensor) {
    const at::Tensor& physical = views[next++].tensor();
    if (!at::isBatchedTensor(tensor)) return std::pair<at::Tensor, std::optional<int64_t>>(tensor, std::nullopt);
    return std::pair<at::Tensor, std::optional<int64_t>>(levels == 1 ? physical : physical.flatten(0, levels - 1), 0);
  });
  call_mapped(family_, op, kind_, handle, arguments, given, stack);
  wrap_results(stack, op->signature().of(kind_)->results.size(), [&](const at::Tensor& result) {
    const at::Tensor all = levels == 1 ? result : result.unflatten_symint(0, sizes);
    return views.front().getPhysicalToLogicalMap().apply(all);
  });
}

}  // namespace torch_slang
