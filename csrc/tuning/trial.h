// The arguments of one call as variants are tried on them. Nothing that the caller can see changes: what a launch may write
// is a copy, put back to the caller's values before each run, and shares memory wherever the caller's tensors do.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <vector>

#include "operators/call_context.h"
#include "operators/signature.h"

namespace torch_slang {

class Trial {
 public:
  // A call of one variant, with the arguments that it is given.
  using Run = std::function<Results(c10::ArrayRef<c10::IValue>, const CallContext&)>;

  // While it lives, this thread runs below autograd, on `device`. `context`: of the call that wants to know; trials measure no
  // virtual threads.
  Trial(const Signature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, c10::Device device, CallContext context);

  // Runs a variant once, with the caller's values.
  void run(const Run& variant);
  // Whether the variant's results equal those of the first variant that was asked about, within rounding.
  bool agrees(const Run& variant);
  // Seconds of one run, as Backend::seconds tells them.
  double seconds(const Run& variant, int rounds);
  // The same, of as many rounds as take some milliseconds; of a few if those took `hopeless` or longer.
  double seconds_of_several(const Run& variant, double hopeless);
  // Of each of several variants, timed in turns, forwards and backwards: the median of the turns. Clocks change with heat
  // and power, here for all alike. A turn takes some milliseconds of each, or one run if that takes longer. Empty if `is_late`
  // says so before three turns are over.
  std::vector<double> seconds_in_turns(const std::vector<Run>& variants, c10::function_ref<bool()> is_late);

 private:
  struct Copy {
    at::Tensor original;  // bytes of a storage
    at::Tensor bytes;  // of its copy
  };
  at::Tensor copied(const at::Tensor& tensor);
  void restore();
  std::vector<at::Tensor> outcome(Results results) const;

  const at::AutoDispatchBelowADInplaceOrView below_autograd_;
  const c10::AutoGradMode no_gradients_{false};
  const c10::OptionalDeviceGuard guard_;
  const OpKind kind_;
  const c10::Device device_;
  CallContext context_;
  std::vector<c10::IValue> stack_;
  std::vector<Copy> copies_;
  std::vector<at::Tensor> written_;  // of the stack, in a launch
  std::vector<at::Tensor> expected_;
};

}  // namespace torch_slang
