// The loop over the threads of a block on the host, for kernels whose threads never meet; and one thread of those that do.
//
// Note [host loop]
//   The loop vectorises (g++ 12, -O3 -march=native; sqr's forward: one 512-bit load, multiply and store a step) because
//     - the loop variable is the thread's index in the whole launch, i, and threadIdx.x is i - base with base spelled as
//       blockIdx.x * blockDim.x: the kernel's own `threadIdx.x + blockIdx.x * blockDim.x` then folds to i, which runs up to an `end`
//       and so cannot wrap around, while a sum of unsigned numbers might, for all the compiler knows;
//     - `args` is a copy on the stack, so no store of the kernel can change a pointer or a size in it;
//     - threads inside the launch's total have a loop of their own: from i < end and end <= bounds.x the compiler
//       itself concludes that the kernel's guard is false (an assumption inside the loop would be control flow there, and
//       keep it from vectorising: 5.6 ms where this takes 1.2, 2^24 floats in cache);
//     - #pragma ivdep says that threads do not depend on each other's memory. It stands only where the run-time has seen
//       that no two views overlap (TSL_INDEPENDENT).
//   Each thread has a fresh kernel object; it dissolves into registers. The kernel is inlined into two loops, that one and one
//   for all other threads: each further one would cost as much of the compiler's time again.
#pragma once

#include "prelude/block_size.h"

#if !TSL_CUDA

#if !TSL_INDEPENDENT
#define TSL_INDEPENDENT_THREADS
#elif defined(__clang__)
#define TSL_INDEPENDENT_THREADS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TSL_INDEPENDENT_THREADS _Pragma("GCC ivdep")
#endif

namespace tsl {

// Threads first <= i < last of a row, i = threadIdx.x + blockIdx.x * blockDim.x.
#define TSL_THREADS(first, last)                                                                              \
  TSL_INDEPENDENT_THREADS                                                                                     \
  for (uint i = first; i < last; ++i) {                                                                       \
    Kernel kernel{{{uint3{i - base, y, z}, block_index, block, grid, args}, &sums, i - begin}};               \
    run<Kernel, kEntry>(kernel);                                                                              \
  }

// One row of a block, or a part of it: its threads first <= threadIdx.x < last with the same y and z. `kEntry` is a pointer to
// the kernel's entry member. `bounds`: the launch's total along x, y and z, where kIsBounded; then all threads are below it
// along x, or none is.
template <class Kernel, void (Kernel::*kEntry)(), bool kIsBounded>
TSL_INLINE void run_row(const TslArgs& args, uint3 block_index, uint first, uint last, uint y, uint z, uint3 bounds) {
  const uint3 block = block_size(args), grid = grid_size(args);
  const uint base = block_index.x * block.x;
  const uint begin = base + first, end = base + last;
  ValueSums sums;
  // In the `if` itself, and `end` last: from a condition kept in a variable g++ 12 concludes nothing.
  if (kIsBounded ? block_index.y * block.y + y < bounds.y && block_index.z * block.z + z < bounds.z &&
                       begin < bounds.x && end <= bounds.x
                 : begin <= end) {
    TSL_THREADS(begin, end)
  } else {  // threads beyond the total, or where indices wrap around: few, so that their speed does not count
    for (uint t = first; t < last; ++t) {
      Kernel kernel{{{uint3{t, y, z}, block_index, block, grid, args}, &sums, t - first}};
      run<Kernel, kEntry>(kernel);
    }
  }
  const ulonglong number = (ulonglong(block_index.z) * grid.y + block_index.y) * grid.x + block_index.x;
  sums.add_up(args, number, ulonglong(grid.x) * grid.y * grid.z, last - first);
}
#undef TSL_THREADS

// All threads of one block.
template <class Kernel, void (Kernel::*kEntry)(), bool kIsBounded>
TSL_INLINE void run_block(const TslArgs& args, uint3 block_index, uint3 bounds) {
  const uint3 block = block_size(args);
  uint row = block.x;
  __asm__("" : "+r"(row));  // a known length makes the compiler count from zero, and lose that i is below the bounds
  for (uint z = 0; z < block.z; ++z) {
    for (uint y = 0; y < block.y; ++y) {
      for (uint first = 0, last; first < row; first = last) {
        last = row - first < ValueSums::kThreads ? row : first + ValueSums::kThreads;
        if (kIsBounded) {
          const uint begin = block_index.x * block.x + first;
          const uint left = begin < bounds.x ? bounds.x - begin : 0u - begin;  // until indices wrap around
          if (left != 0 && left < last - first) last = first + left;
        }
        run_row<Kernel, kEntry, kIsBounded>(args, block_index, first, last, y, z, bounds);
      }
    }
  }
}

// One thread of a block whose threads meet; the back end calls this on the thread's fiber.
template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_thread(const TslArgs& args, TslHostThread* self, uint3 block_index, uint3 thread_index) {
  tsl_host_thread = self;
  ValueSums sums;
  Kernel kernel{{{thread_index, block_index, block_size(args), grid_size(args), args}, &sums, 0}};
  run<Kernel, kEntry>(kernel);
}

}  // namespace tsl

#endif
