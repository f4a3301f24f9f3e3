#include "backend/cpu/parallel_blocks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "common/background.h"

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "compile this file with -fopenmp: without it at::parallel_for runs everything on one thread, silently"
#endif

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// A task that is worth giving to another thread, and how much is done alone before others are asked, in nanoseconds.
constexpr double kTask = 8e3;

double since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

struct Progress {
  int64_t blocks;
  double nanoseconds_each;
};

// Runs as many blocks as should take kTask, then more and more, until all are done or it is clear that the rest is worth sharing.
Progress run_alone(int64_t blocks, double expected, c10::function_ref<void(int64_t, int64_t)> run) {
  auto start = Clock::now();
  int64_t done = 0;
  double elapsed = 0;
  int64_t next = expected > 0 ? static_cast<int64_t>(kTask / expected) : 1;
  while (done < blocks && elapsed < kTask) {
    next = std::clamp<int64_t>(next, done + 1, blocks);
    run(done, next);
    done = next;
    next *= 2;
    elapsed = since(start);
  }
  return {done, std::max(1.0, elapsed / static_cast<double>(done))};
}

}  // namespace

void run_in_parallel(int64_t blocks, BlockCost& cost, c10::function_ref<void(int64_t first, int64_t last)> run) {
  if (blocks <= 1 || at::in_parallel_region() || is_in_background() || at::get_num_threads() == 1) {
    run(0, blocks);
    return;
  }
  Progress progress{0, cost.nanoseconds()};
  if (progress.nanoseconds_each * static_cast<double>(blocks) < 2 * kTask) {
    progress = run_alone(blocks, progress.nanoseconds_each, run);
    cost.observe(progress.nanoseconds_each);
    if (progress.blocks == blocks) return;
  }
  auto grain = static_cast<int64_t>(kTask / progress.nanoseconds_each) + 1;
  at::parallel_for(progress.blocks, blocks, grain, [&](int64_t first, int64_t last) {
    bool measure = first == progress.blocks;  // one range is enough
    auto start = measure ? Clock::now() : Clock::time_point();
    run(first, last);
    if (measure) cost.observe(since(start) / static_cast<double>(last - first));
  });
}

}  // namespace torch_slang
