// Runs the blocks of a launch on torch's thread pool. Waking the pool costs several microseconds, so small launches
// stay on the calling thread; how long one block takes is learnt from the launches of the same kernel.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace torch_slang {

// The time that one block of a kernel has taken. One for each kernel; any number of threads may use it at once. A thread that is
// interrupted measures far too much, so the estimate rises slowly and falls at once.
class BlockCost {
 public:
  double nanoseconds() const { return nanoseconds_.load(std::memory_order_relaxed); }  // 0: not known
  void observe(double nanoseconds) {
    double known = this->nanoseconds();
    nanoseconds_.store(static_cast<float>(known == 0 ? nanoseconds : std::min(nanoseconds, 2 * known)),
                       std::memory_order_relaxed);
  }

 private:
  std::atomic<float> nanoseconds_{0};
};

// Calls `run(first, last)` for ranges that make up 0..blocks, each once, on the calling thread and on those of the pool; on
// the calling thread alone inside a parallel region. Throws what `run` throws first, after all have ended.
void run_in_parallel(int64_t blocks, BlockCost& cost, c10::function_ref<void(int64_t first, int64_t last)> run);

}  // namespace torch_slang
