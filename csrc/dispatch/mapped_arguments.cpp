#include "dispatch/mapped_arguments.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

namespace torch_slang {

MappedArguments::MappedArguments(torch::jit::Stack* stack, size_t count, Unwrap unwrap)
    : stack_(stack), is_mapped_(count, false) {
  for (size_t i = 0; i < count; ++i) {
    if (!is_tensor(i)) continue;
    auto [value, dimension] = unwrap(tensor(i));
    if (dimension) {
      is_mapped_[i] = any_ = true;
      size_ = value.sym_size(*dimension);
      if (*dimension != 0) value = value.movedim(*dimension, 0);
    }
    set(i, std::move(value));
  }
}

bool MappedArguments::is_tensor(size_t i) const {
  const c10::IValue& value = torch::jit::peek(*stack_, i, count());
  return value.isTensor() && value.toTensor().defined();
}

at::Tensor MappedArguments::tensor(size_t i) const { return torch::jit::peek(*stack_, i, count()).toTensor(); }

void MappedArguments::set(size_t i, at::Tensor tensor) { torch::jit::peek(*stack_, i, count()) = std::move(tensor); }

void MappedArguments::expand(size_t i) {
  const at::Tensor one = tensor(i).unsqueeze(0);
  c10::SymDimVector sizes(one.sym_sizes().begin(), one.sym_sizes().end());
  sizes[0] = size_;
  set(i, one.expand_symint(sizes));
}

void MappedArguments::check_written(const std::string& op, const c10::FunctionSchema& schema) const {
  for (size_t i = 0; i < count(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !is_tensor(i)) continue;
    const std::string& name = schema.arguments()[i].name();
    TORCH_CHECK(is_mapped_[i], op, ": expected ", name,
                ", which may be written, to be mapped over as other arguments are, since under torch.vmap each sample "
                "writes its own, but it is one tensor of shape ",
                tensor(i).sym_sizes(), " for all samples: map over it too, or expand and clone it");
    TORCH_CHECK(
        size_ == 1 || tensor(i).sym_stride(0) != 0, op, ": expected ", name,
        ", which may be written, to have memory of its own for each sample, but it is expanded along the mapped "
        "dimension: pass a clone");
  }
}

void wrap_results(torch::jit::Stack* stack, size_t results, c10::function_ref<at::Tensor(const at::Tensor&)> wrap) {
  for (size_t i = 0; i < results; ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, results);
    if (value.isTensor() && value.toTensor().defined()) value = wrap(value.toTensor());
  }
}

}  // namespace torch_slang
