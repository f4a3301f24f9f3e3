// Threads that work for the one that made them. None outlives the owner of this; if that is interrupted (see
// common/interrupts.h) they stop too. Work does not throw but for that.
#pragma once

#include <future>
#include <utility>
#include <vector>

#include "common/interrupts.h"

namespace torch_slang {

class HelperThreads {
 public:
  template <class Work>
  void start(Work work) {
    const auto run = [work = std::move(work), since = interruptions_seen()] {
      const WorksForAnother scope(since);
      try {
        work();
      } catch (const Interrupted&) {  // nobody waits for it any more
      }
    };
    ended_.push_back(std::async(std::launch::async, run).share());  // which waits when it goes
  }

  void wait() const {
    for (const auto& one : ended_) wait_interruptibly_for(one);
  }

 private:
  std::vector<std::shared_future<void>> ended_;
};

}  // namespace torch_slang
