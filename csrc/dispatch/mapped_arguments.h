// The arguments of a call of which torch.vmap maps over some.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <utility>

namespace torch_slang {

// The last `count` values of a stack, with wrappers taken off their tensors. The mapped dimension comes in front.
class MappedArguments {
 public:
  // A tensor without its wrapper, and which of its dimensions is mapped over.
  using Unwrap = c10::function_ref<std::pair<at::Tensor, std::optional<int64_t>>(const at::Tensor& tensor)>;
  MappedArguments(torch::jit::Stack* stack, size_t count, Unwrap unwrap);

  bool any() const { return any_; }
  const c10::SymInt& size() const { return size_; }  // how many samples there are
  size_t count() const { return is_mapped_.size(); }
  bool is_mapped(size_t i) const { return is_mapped_[i]; }
  bool is_tensor(size_t i) const;
  at::Tensor tensor(size_t i) const;
  const c10::IValue& value(size_t i) const { return torch::jit::peek(*stack_, i, count()); }
  void set(size_t i, at::Tensor tensor);

  // Makes a tensor that is the same for all samples have their dimension too: a view.
  void expand(size_t i);
  // Throws unless each tensor that the op may write is mapped over, with memory of its own for each sample.
  void check_written(const std::string& op, const c10::FunctionSchema& schema) const;

 private:
  torch::jit::Stack* const stack_;
  c10::SymInt size_;
  bool any_ = false;
  c10::SmallVector<bool, 16> is_mapped_;
};

// Each of the last `results` values of a stack that is a tensor, wrapped.
void wrap_results(torch::jit::Stack* stack, size_t results, c10::function_ref<at::Tensor(const at::Tensor&)> wrap);

}  // namespace torch_slang
