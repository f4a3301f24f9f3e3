// A plain function's call at one level of torch.vmap: Note [batching rules] in dispatch/vmap.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "dispatch/mapped_arguments.h"
#include "operator/operator.h"

namespace torch_slang {

class MappedFunction {
 public:
  // Arranges the arguments so that the function broadcasts over the samples.
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
  size_t generated_rank(size_t i) const;
  bool is_input(size_t i) const;
  bool is_single(size_t i) const;
  std::optional<c10::ScalarType> decided_type(int parameter) const;
  void convert_singles();
  void convert(size_t i, const at::TensorOptions& options);
  void align();

  const Operator& op_;
  const OpKind kind_;
  MappedArguments& arguments_;
  std::vector<Change> changes_;  // by leaf
};

}  // namespace torch_slang
