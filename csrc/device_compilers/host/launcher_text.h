// The functions that the run-time calls, behind the kernel object in the source of a CPU kernel.
#pragma once

#include <string>

#include "prelude/host_threads.h"
#include "source/kernel_source.h"

namespace torch_slang {

// Runs the blocks with linear index `first` to `last` - 1 (x fastest), each thread to its end. `args`: the argument block.
using RunBlocks = void(const void* args, unsigned long long first, unsigned long long last);
inline constexpr const char* kRunBlocks = "tsl_run_blocks";

// Runs one thread of a block whose threads meet, on the fiber that `self` stands for.
using RunThread = void(const void* args, TslHostThread* self, const unsigned* block_index,
                       const unsigned* thread_index);
inline constexpr const char* kRunThread = "tsl_run_thread";

// Counts the kernels that hold the library, if it has this: what its threads have kept goes with the last of them
// (prelude/mma_host.h).
using Hold = void(int change);
inline constexpr const char* kHold = "tsl_hold";

// Whether the kernel's threads meet: then it has kRunThread, else kRunBlocks.
bool threads_meet(const KernelSource& source);

std::string host_launcher_text(const KernelSource& source);

}  // namespace torch_slang
