// The batching rule of every op where gradients come in batches: torch.autograd.grad(is_grads_batched=True) maps by a key of its own.
// Otherwise as dispatch/vmap.h. (The headers of the two do not go into one file.)
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/registered_op.h"

namespace torch_slang {

class BatchedGradientsKernel final : public c10::OperatorKernel {
 public:
  BatchedGradientsKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

}  // namespace torch_slang
