// What a call of an operator is given beside its arguments, and what it gives.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <vector>

#include "backend/backend.h"

namespace torch_slang {

struct KernelKey;

using Results = c10::SmallVector<at::Tensor, 4>;

// The particulars of one call, passed to all functions that work on it. The default is an ordinary call.
struct CallContext {
  // Autograd records the call, so its backward is likely to follow: that is compiled at the same time.
  bool is_recorded = false;
  // A trial of several kernels: those that it asks for are not listed among the compiled kernels until another call asks for them.
  bool hides_kernels = false;
  // Outputs begin as numbers that stand out, unless [Fill] says others: what the kernel does not write then shows.
  bool marks_outputs = false;
  // Virtual threads are not chosen by measurement: the call takes `threads`, or else those that are likely to be fast.
  bool is_unmeasured = false;
  std::optional<VirtualThreads> threads;
  // If not null, the keys of the kernels that the call needs are added here.
  std::vector<KernelKey>* requested = nullptr;
};

}  // namespace torch_slang
