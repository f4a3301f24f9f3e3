#include "backend/cpu/spread.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "compile this file with -fopenmp: without it at::parallel_for runs everything on one thread, silently"
#endif

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// A task that is worth giving to another thread, and how much is done alone before others are asked, in nanoseconds.
constexpr double kTask = 8e3;

double since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

// Runs more and more blocks until all are done or it is clear that there is enough left to share. Returns how many it ran.
int64_t run_alone(int64_t blocks, BlockCost& cost, c10::function_ref<void(int64_t, int64_t)> run) {
  auto start = Clock::now();
  int64_t done = 0;
  double elapsed = 0;
  while (done < blocks && elapsed < kTask) {
    int64_t next = std::min(blocks, std::max<int64_t>(1, 2 * done));
    run(done, next);
    done = next;
    elapsed = since(start);
  }
  cost.observe(elapsed, done);
  return done;
}

}  // namespace

void spread_blocks(int64_t blocks, BlockCost& cost, c10::function_ref<void(int64_t first, int64_t last)> run) {
  if (blocks <= 1 || at::in_parallel_region() || at::get_num_threads() == 1) {
    run(0, blocks);
    return;
  }
  double one = cost.nanoseconds();
  bool surely_large = one * static_cast<double>(blocks) >= 2 * kTask;
  int64_t done = surely_large ? 0 : run_alone(blocks, cost, run);
  if (done == blocks) return;
  auto grain = static_cast<int64_t>(kTask / std::max(1.0, cost.nanoseconds())) + 1;
  at::parallel_for(done, blocks, grain, [&](int64_t first, int64_t last) {
    bool measure = first == done;  // one range is enough
    auto start = measure ? Clock::now() : Clock::time_point();
    run(first, last);
    if (measure) cost.observe(since(start), last - first);
  });
}

}  // namespace torch_slang
