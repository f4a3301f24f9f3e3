// Virtual threads as an operator's calls have them: those that are likely to be fast, or for large launches those that were
// measured to be. Note [choosing] in op/choices.h. Any thread may ask.
#pragma once

#include <mutex>

#include "op/kernel_table.h"
#include "op/known_choices.h"
#include "op/virtual_threads.h"

namespace torch_slang {

struct ChosenThreads {
  VirtualThreads threads;
  bool is_measured = false;
};

class ThreadChoices {
 public:
  // `key`: of the call's kernel, with the virtual threads that are likely to be fast. Measures if it must and may; the call
  // is then tried with its own arguments, of which nothing is changed.
  ChosenThreads get(const Operator& op, const KernelKey& key, const ThreadFacts& facts,
                    c10::ArrayRef<c10::IValue> stack);

 private:
  ChosenThreads choose(const Operator& op, const KernelKey& key, const ThreadFacts& facts,
                       c10::ArrayRef<c10::IValue> stack, const CallClass& call);

  std::timed_mutex measuring_;  // one thread at a time; others wait for what it finds
  KnownChoices<ChosenThreads> known_;
};

// While it lives, this thread's calls take these virtual threads; with null, those that are likely to be fast.
class GivenThreads {
 public:
  explicit GivenThreads(const VirtualThreads* threads);
  ~GivenThreads();
  GivenThreads(const GivenThreads&) = delete;
  GivenThreads& operator=(const GivenThreads&) = delete;

 private:
  const GivenThreads* outer_;
  const VirtualThreads* threads_;
  friend class ThreadChoices;
};

}  // namespace torch_slang
