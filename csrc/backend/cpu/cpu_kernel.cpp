#include "backend/cpu/cpu_kernel.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "backend/cpu/thread_block.h"
#include "backend/launch_shape.h"
#include "prelude/abi.h"
#include "source/record.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

int64_t block_count(const LaunchShape& shape) {
  return int64_t{shape.grid[0]} * int64_t{shape.grid[1]} * int64_t{shape.grid[2]};
}

// Note [stopped launches] in prelude/polls.h.
bool is_stopped(const void* args) {
  TslFault* const fault = static_cast<const TslHeader*>(args)->fault;
  return fault != nullptr && std::atomic_ref<unsigned>(fault->stop).load(std::memory_order_relaxed) != 0;
}

}  // namespace

CpuKernel::CpuKernel(const KernelSource& source, DynamicLibrary library, std::set<std::string> marks)
    : op_(source.op), args_size_(argument_block_size(source)), library_(std::move(library)), marks_(std::move(marks)) {
  hold_ = reinterpret_cast<Hold*>(library_.find(kHold));
  if (hold_ != nullptr) hold_(1);
  if (threads_meet(source)) {
    run_thread_ = library_.function<RunThread>(kRunThread);
  } else {
    run_blocks_ = library_.function<RunBlocks>(kRunBlocks);
  }
}

CpuKernel::~CpuKernel() {
  if (hold_ != nullptr) hold_(-1);
}

// Independent threads: rows long enough for vector loops, and as many as on a GPU, since the launch's threads are multiples
// (replicas are counted by them). Threads that meet: each has a stack.
uint32_t CpuKernel::preferred_block() const { return run_thread_ != nullptr ? 128 : 256; }

// Blocks are shared out among threads as they come, and sums must not depend on how many those are.
uint32_t CpuKernel::resident_blocks() const { return std::numeric_limits<uint32_t>::max(); }

void CpuKernel::launch(const LaunchShape& shape, const void* args, size_t args_size) const {
  check_args(args_size);
  record_launch(op_, "cpu", [&] { return describe(shape); });
  run_in_parallel(block_count(shape), cost_,
                  [&](int64_t first, int64_t last) { run_blocks(shape, args, first, last); });
}

void CpuKernel::launch_samples(const LaunchShape& shape, const void* args, size_t args_size,
                               const Samples& samples) const {
  check_args(args_size);
  record_launch(op_, "cpu", [&] { return describe(shape, samples); });
  const int64_t each = block_count(shape);
  run_in_parallel(each * static_cast<int64_t>(samples.count()), cost_, [&](int64_t first, int64_t last) {
    c10::SmallVector<char, 1024> own(args_size);
    while (first < last) {
      const int64_t sample = first / each, end = std::min(last, (sample + 1) * each);
      std::memcpy(own.data(), args, args_size);
      move_to_sample(samples, static_cast<uint64_t>(sample), own.data());
      run_blocks(shape, own.data(), first - sample * each, end - sample * each);
      if (is_stopped(args)) return;
      first = end;
    }
  });
}

void CpuKernel::launch_serially(const LaunchShape& shape, const void* args, size_t args_size) const {
  check_args(args_size);
  run_blocks(shape, args, 0, block_count(shape));
}

void CpuKernel::check_args(size_t args_size) const {
  TORCH_INTERNAL_ASSERT(args_size >= args_size_, op_, ": an argument block of ", args_size,
                        " bytes where the kernel reads ", args_size_);
}

void CpuKernel::run_blocks(const LaunchShape& shape, const void* args, int64_t first, int64_t last) const {
  if (run_thread_ != nullptr) {
    run_meeting_blocks(shape, args, first, last);
  } else {
    run_blocks_(args, static_cast<unsigned long long>(first), static_cast<unsigned long long>(last));
  }
}

void CpuKernel::run_meeting_blocks(const LaunchShape& shape, const void* args, int64_t first, int64_t last) const {
  ThreadBlock& threads = ThreadBlock::of_this_thread();
  BlockWork work;
  work.entry = run_thread_;
  work.args = args;
  std::copy(std::begin(shape.block), std::end(shape.block), work.block_size);
  for (int64_t block = first; block < last; ++block) {
    work.block_index[0] = static_cast<uint32_t>(block % shape.grid[0]);
    work.block_index[1] = static_cast<uint32_t>(block / shape.grid[0] % shape.grid[1]);
    work.block_index[2] = static_cast<uint32_t>(block / shape.grid[0] / shape.grid[1]);
    std::string reason = threads.run(work);
    if (is_stopped(args)) return;  // by then threads may wait for others that have left a loop
    if (reason.empty()) continue;
    throw_launch_error(op_, ": block (", work.block_index[0], ", ", work.block_index[1], ", ", work.block_index[2],
                       ") of a ", describe(shape), " cannot end: ", reason);
  }
}

}  // namespace torch_slang
