// An Operator is one kernel or plain function of one Program with the compiled kernels that it has so far, and what was
// measured of them. It is shared by the registered op, by Module callables and by the graphs that were recorded with it, so
// a reload never changes what any of them runs.
#pragma once

#include <memory>
#include <utility>

#include "kernel/kernel_table.h"
#include "signature/signature.h"
#include "tuning/thread_choices.h"

namespace torch_slang {

class Tuner;

struct Operator : Signature {
  template <class... Arguments>
  explicit Operator(Arguments&&... arguments) : Signature(std::forward<Arguments>(arguments)...), kernels(options) {}

  mutable KernelTable kernels;
  mutable ThreadChoices thread_choices;
  // Of a kernel with tuned variables: it has no compiled kernels of its own, but variants that have (operator/tuner.h).
  std::shared_ptr<Tuner> tuner;
};

}  // namespace torch_slang
