// The operator that gives the results of a plain function and their tangents: its kernels in PyTorch's dispatcher.
//
// Note [dual calls]
//   Forward mode wants the results of f, and their tangents. f and f_jvp are two loops, which read all arguments twice, and memory
//   is what they wait for. So there is one more operator, "slang_dual::f": it takes what f_jvp takes, the arguments of f and then
//   tangents, and gives what f_jvp gives and then what f gives, by one loop. f's Autograd kernel calls it for arguments with
//   tangents, unless autograd records that call.
//   It has no derivatives itself. Where some are asked of it, by an outer transform, it calls f and f_jvp in its place, which
//   have all. So it does under a vmap over tangents alone (jacfwd): f gives its results once, not once for each sample.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/registered_op.h"

namespace torch_slang {

// A kernel of such an operator, whose family this is.
class DualKernel : public c10::OperatorKernel {
 public:
  DualKernel(const RegisteredFamily& family, OpKind) : family_(family) {}

 protected:
  const RegisteredFamily& family_;
};

class DualAutogradKernel final : public DualKernel {
 public:
  using DualKernel::DualKernel;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);
};

class DualVmapKernel final : public DualKernel {
 public:
  using DualKernel::DualKernel;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);
};

// Where gradients come in batches (dispatch/batched_gradients.h): tangents alone are mapped there.
class DualBatchedKernel final : public DualKernel {
 public:
  using DualKernel::DualKernel;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);
};

}  // namespace torch_slang
