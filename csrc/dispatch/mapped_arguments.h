// The arguments of a call at one level of torch.vmap.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>

namespace torch_slang {

// The last `count` values of a stack, with this level's wrappers taken off their tensors. What is mapped over comes in front.
class MappedArguments {
 public:
  MappedArguments(torch::jit::Stack* stack, size_t count, int64_t level);

  bool any() const { return any_; }
  const c10::SymInt& size() const { return size_; }  // how many samples there are
  size_t count() const { return is_mapped_.size(); }
  bool is_mapped(size_t i) const { return is_mapped_[i]; }
  bool is_tensor(size_t i) const;
  at::Tensor tensor(size_t i) const;
  void set(size_t i, at::Tensor tensor);

  // Makes a tensor that is the same for all samples have their dimension too: a view.
  void expand(size_t i);
  // Throws unless each tensor that the op may write is mapped over, with memory of its own for each sample.
  void check_written(const std::string& op, const c10::FunctionSchema& schema) const;

  // The results of a call, behind which the stack ends, as the level's tensors.
  void wrap_results(size_t results) const;

 private:
  torch::jit::Stack* const stack_;
  const int64_t level_;
  c10::SymInt size_;
  bool any_ = false;
  c10::SmallVector<bool, 16> is_mapped_;
};

}  // namespace torch_slang
