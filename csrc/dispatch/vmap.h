// The batching rule of every op: the dimension that torch.vmap maps over becomes a dimension of samples.
//
// Note [batching rules]
//   A kernel's op calls its family's op for samples (operators/sampled_operator.h) with the mapped dimension in front; tensors that all
//   samples share are expanded, so in a backward each sample has its own gradient of them. That op is an operator like the
//   others: autograd records it, transforms and traces see it, and under another vmap it gets one more dimension.
//   A plain function broadcasts, so it is its own op for samples: dimensions of size 1 stand between the samples and what
//   broadcasts. Where it sees a tensor whole that differs from sample to sample, it is called for each in turn.
//   Ops that write to their arguments do so for each sample, so every written argument must be mapped over.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "dispatch/mapped_arguments.h"
#include "operators/registered_op.h"

namespace torch_slang {

// Runs a call of which torch.vmap maps over some arguments. Puts the results in place of the arguments on the stack, with the samples
// as their first dimension. `given`: the arguments with their wrappers, for messages.
void call_mapped(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 const c10::OperatorHandle& handle, MappedArguments& arguments, c10::ArrayRef<c10::IValue> given,
                 torch::jit::Stack* stack);

class VmapKernel final : public c10::OperatorKernel {
 public:
  VmapKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

}  // namespace torch_slang
