// Spreads the blocks of a launch over torch's thread pool. Waking the pool costs several microseconds, so small launches
// stay on the calling thread; how long one block takes is learnt from the launches of the same kernel.
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>

namespace torch_slang {

// What a kernel's blocks took so far. One for each kernel; any number of threads may use it at once.
class BlockCost {
 public:
  double nanoseconds() const { return nanoseconds_.load(std::memory_order_relaxed); }  // of one block; 0: not known
  void observe(double nanoseconds, int64_t blocks) {
    nanoseconds_.store(static_cast<float>(nanoseconds / static_cast<double>(blocks)), std::memory_order_relaxed);
  }

 private:
  std::atomic<float> nanoseconds_{0};
};

// Calls `run(first, last)` for ranges that make up 0..blocks, each once, on the calling thread and on those of the pool; on
// the calling thread alone inside a parallel region. Throws what `run` throws first, after all have ended.
void spread_blocks(int64_t blocks, BlockCost& cost, c10::function_ref<void(int64_t first, int64_t last)> run);

}  // namespace torch_slang
