#include "dispatch/mapped_loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <vector>

namespace torch_slang {
namespace {

using torch::jit::Stack;

// Of no samples: what a sample's result would be like says the meta device.
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

}  // namespace

bool needs_loop(const Operator& op, OpKind kind, const MappedArguments& arguments) {
  const Function& function = op.signature().function;
  if (!sees_tensors(function)) return false;
  if (kind == OpKind::Backward) return true;  // each sample has its own gradient of a tensor
  for (size_t i = 0; i < arguments.count(); ++i) {
    const Leaf& leaf = function.leaves[op.signature().of(kind)->arguments[i].leaf];
    if (leaf.is_whole && (arguments.is_mapped(i) || leaf.is_written)) return true;
  }
  return false;
}

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

}  // namespace torch_slang
