// Chooses, for one kernel with tuned variables, the variant that runs a call: Note [choosing] in tuning/choices.h. A variant is
// an operator of its own that nobody registered, of the same module compiled with other values.
//
// Note [tuning]
//   At the first call of a class (kernels/call_class.h) the first variant that works shows which compiled kernels such a call
//   needs; those of the others are then compiled by several threads. Variants that are compiled in time are checked against the first
//   one's results (these may not depend on the choice) and timed, on the call's own arguments; the real call comes after
//   that. A variant that fails is left out. Nothing is timed while a stream is captured, nor for tensors without elements.
//
// Note [tuned launches]
//   The caller of a launch has chosen its blocks and grid. So it keeps the first value of variables that LaunchTotal names,
//   and variants with another BlockSize are none for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "operators/call_context.h"
#include "tuned/broken_kernels.h"
#include "tuned/tuned_module.h"
#include "tuning/search.h"

namespace torch_slang {

class Tuner {
 public:
  Tuner(std::shared_ptr<TunedModule> module, TunedSpace space);

  // `front`: the kernel that this is the tuner of.
  Results run(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, const CallContext& context);

  const TunedSpace& space() const { return space_; }

  // The variants that some call was found to be fastest with, each with a description of its values.
  std::vector<std::pair<std::string, std::shared_ptr<const KernelOperator>>> in_use() const;

 private:
  // Null: nothing is known, and this call may not choose: `run_first_that_works`.
  using Variant = std::shared_ptr<const KernelOperator>;
  class Subject;

  Results run_first_that_works(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                               const CallContext& context);
  std::vector<TunedValues> candidates(const KernelSignature& front, OpKind kind) const;
  Variant variant(const KernelSignature& front, const TunedValues& values);  // throws CompileError
  std::string key_of(const KernelSignature& front, OpKind kind, const std::string& hardware,
                     const CallClass& call) const;

  const std::shared_ptr<TunedModule> module_;
  const TunedSpace space_;
  BrokenKernels broken_;
  Search<Variant> search_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Variant> variants_;  // by description of their values
};

}  // namespace torch_slang
