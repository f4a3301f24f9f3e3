// The Autograd kernel of every op: records a node whose backward is the family's backward op, called through the whole
// dispatcher (so that functorch, fake tensors and modes see it).
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/registered_op.h"

namespace torch_slang {

class AutogradKernel final : public c10::OperatorKernel {
 public:
  AutogradKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

// On ADInplaceOrView, of ops that mutate: their tensors get a new version where autograd itself is off (inference mode).
class VersionKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);
};

}  // namespace torch_slang
