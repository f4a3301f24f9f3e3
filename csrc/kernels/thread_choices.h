// Virtual threads as an operator's calls have them: those that are likely to be fast, or for large launches those that were
// measured to be. Note [choosing] in tuning/choices.h. Any thread may ask.
#pragma once

#include <c10/util/FunctionRef.h>

#include "kernels/signature.h"
#include "operators/call_context.h"
#include "specialise/kernel_table.h"
#include "specialise/virtual_threads.h"
#include "tuning/search.h"

namespace torch_slang {

struct ChosenThreads {
  VirtualThreads threads;
  bool is_measured = false;
};

class ThreadChoices {
 public:
  // Runs the call with these arguments.
  using Run = c10::function_ref<Results(c10::ArrayRef<c10::IValue>, const CallContext&)>;

  // `key`: of the call's kernel, with the virtual threads that are likely to be fast. Measures if it must and may; the call
  // is then tried with its own arguments, `stack`, of which nothing is changed.
  ChosenThreads get(const KernelSignature& op, KernelTable& kernels, const KernelKey& key, const ThreadFacts& facts,
                    c10::ArrayRef<c10::IValue> stack, const CallContext& context, Run run);

 private:
  Search<ChosenThreads> search_;
};

}  // namespace torch_slang
