// The loop over the threads of a block on the host, for kernels whose threads never meet.
//
// Note [host loop]
//   The loop vectorises (g++ 12, -O3 -march=native; sqr's forward: one 512-bit load, multiply and store a step) because
//     - the loop variable is the thread's index in the whole launch, i, and threadIdx.x is i - base with base spelled as
//       blockIdx.x * blockDim.x: the kernel's own `threadIdx.x + blockIdx.x * blockDim.x` then folds to i, which runs up to an `end`
//       and so cannot wrap around, while a sum of unsigned numbers might, for all the compiler knows;
//     - `args` is a copy on the stack, so no store of the kernel can change a pointer or a size in it;
//     - a full block, all of whose indices are below `bound`, has a loop of its own: from i < end and end <= bound the compiler
//       itself concludes that the kernel's guard is false (an assumption inside the loop would be control flow there, and
//       keep it from vectorising: 5.6 ms where this takes 1.2, 2^24 floats in cache);
//     - #pragma ivdep says that threads do not depend on each other's memory. It stands only where the run-time has seen
//       that no two views overlap (TSL_INDEPENDENT).
//   Each thread has a fresh kernel object; it dissolves into registers.
#pragma once

#include "prelude/kernel_base.h"

#if !TSL_CUDA

#if !TSL_INDEPENDENT
#define TSL_INDEPENDENT_THREADS
#elif defined(__clang__)
#define TSL_INDEPENDENT_THREADS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TSL_INDEPENDENT_THREADS _Pragma("GCC ivdep")
#endif

namespace tsl {

// A `bound` for when nothing is known about thread indices.
constexpr uint kNoBound = 0;

// One row of a block, or a part of it: its threads first <= threadIdx.x < last with the same y and z. `entry` is a pointer to
// the kernel's entry member.
template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_row(const TslArgs& args, uint3 block_index, uint first, uint last, uint y, uint z, uint bound) {
  const uint3 block{args.header.block[0], args.header.block[1], args.header.block[2]};
  const uint3 grid{args.header.grid[0], args.header.grid[1], args.header.grid[2]};
  const uint base = block_index.x * block.x;
  const uint begin = base + first, end = base + last;
  RowSums sums;
  if (end < begin) {  // the last indices of all: no promise holds
    for (uint t = first; t < last; ++t) {
      Kernel kernel{{uint3{t, y, z}, block_index, block, grid, args}};
      kernel.row_sums = &sums;
      kernel.row_thread = t - first;
      (kernel.*kEntry)();
    }
  } else if (end <= bound) {
    TSL_INDEPENDENT_THREADS
    for (uint i = begin; i < end; ++i) {
      Kernel kernel{{uint3{i - base, y, z}, block_index, block, grid, args}};
      kernel.row_sums = &sums;
      kernel.row_thread = i - begin;
      (kernel.*kEntry)();
    }
  } else {
    TSL_INDEPENDENT_THREADS
    for (uint i = begin; i < end; ++i) {
      Kernel kernel{{uint3{i - base, y, z}, block_index, block, grid, args}};
      kernel.row_sums = &sums;
      kernel.row_thread = i - begin;
      (kernel.*kEntry)();
    }
  }
  const ulonglong number = (ulonglong(block_index.z) * grid.y + block_index.y) * grid.x + block_index.x;
  sums.add_up(args, number, ulonglong(grid.x) * grid.y * grid.z, last - first);
}

// All threads of one block. `bound`: every i = threadIdx.x + blockIdx.x * blockDim.x that is below it satisfies what
// the bound stands for (KernelSource::thread_bound, evaluated on `args`), or kNoBound.
template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_block(const TslArgs& args, uint3 block_index, uint bound) {
  const uint row = args.header.block[0];
  for (uint z = 0; z < args.header.block[2]; ++z) {
    for (uint y = 0; y < args.header.block[1]; ++y) {
      for (uint first = 0, last; first < row; first = last) {
        last = row - first < RowSums::kThreads ? row : first + RowSums::kThreads;
        run_row<Kernel, kEntry>(args, block_index, first, last, y, z, bound);
      }
    }
  }
}

}  // namespace tsl

#endif
