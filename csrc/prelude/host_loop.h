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
//   Each thread has a fresh kernel object; it dissolves into registers.
//
//   Threads beyond the total, or whose indices wrap around, are few. The kernel is inlined a second time for them. In a
//   large kernel the second copy is a function of its own (kIsApart), since compilers take longer over both copies in one
//   function than over each by itself. In a small kernel it stays in the loop, since a call for each row would cost time.
//   Where the total is not known, no thread is beyond it. Indices wrap around only in launches of 2^32 or more threads along
//   x, which get a kernel of their own (TSL_WRAPS).
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

// first <= threadIdx.x < last of a row, wherever they are.
template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_anywhere(const TslArgs& args, const ThreadRow& row, uint3 block_index, uint first, uint last, uint y,
                             uint z) {
  const uint3 block = block_size(args), grid = grid_size(args);
  ValueSums sums;
  for (uint t = first; t < last; ++t) {
    Kernel kernel{{{uint3{t, y, z}, block_index, block, grid, args}, &sums, t - first}};
    kernel.stand_in(row);
    run<Kernel, kEntry>(kernel);
  }
  sums.add_up(args, block_number(block_index, grid), block_count(grid), last - first);
}
// The same in a function of its own, with a copy of the row's arguments that no other function has.
template <class Kernel, void (Kernel::*kEntry)()>
__attribute__((noinline)) TSL_ROOT static void run_apart(const TslArgs& __restrict args, const ThreadRow row, uint first,
                                                         uint last) {
  run_anywhere<Kernel, kEntry>(args, row, row.block, first, last, row.y, row.z);
}

// One row of a block, or a part of it: its threads first <= threadIdx.x < last with the same y and z. `kEntry` is a pointer to
// the kernel's entry member. `bounds`: the launch's total along x, y and z, where kIsBounded; then all threads are below it
// along x, or none is. `args` and `apart` are copies of the row's.
template <class Kernel, void (Kernel::*kEntry)(), bool kIsBounded, bool kIsApart>
TSL_INLINE void run_row(const TslArgs& args, const TslArgs& apart, const TslArgs& given, uint3 block_index, uint first,
                        uint last, uint y, uint z, uint3 bounds) {
  const uint3 block = block_size(args), grid = grid_size(args);
  const uint base = block_index.x * block.x;
  const uint begin = base + first, end = base + last;
  // Only reports of faults read it. It points to `given` and not to `args`: the compiler would have to assume that calls change
  // `args` if its address were taken, and the loop would not vectorise.
  const ThreadRow row{&given, block_index, y, z};
  // In the `if` itself, and `end` last: from a condition kept in a variable g++ 12 concludes nothing.
  if (kIsBounded ? block_index.y * block.y + y < bounds.y && block_index.z * block.z + z < bounds.z &&
                       begin < bounds.x && end <= bounds.x
                 : begin <= end) {
    ValueSums sums;
    TSL_INDEPENDENT_THREADS
    for (uint i = begin; i < end; ++i) {  // i = threadIdx.x + blockIdx.x * blockDim.x
      Kernel kernel{{{uint3{i - base, y, z}, block_index, block, grid, args}, &sums, i - begin}};
      kernel.stand_in(row);
      run<Kernel, kEntry>(kernel);
    }
    sums.add_up(args, block_number(block_index, grid), block_count(grid), last - first);
  } else if constexpr (!kIsApart) {
    run_anywhere<Kernel, kEntry>(args, row, block_index, first, last, y, z);
  } else if constexpr (kIsBounded || TSL_WRAPS) {
    run_apart<Kernel, kEntry>(apart, row, first, last);
  }
}

// All threads of one block.
template <class Kernel, void (Kernel::*kEntry)(), bool kIsBounded, bool kIsApart>
TSL_INLINE void run_block(const TslArgs& args, const TslArgs& apart, const TslArgs& given, uint3 block_index,
                          uint3 bounds) {
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
        run_row<Kernel, kEntry, kIsBounded, kIsApart>(args, apart, given, block_index, first, last, y, z, bounds);
      }
    }
  }
}

// One thread of a block whose threads meet; the back end calls this on the thread's fiber.
template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_thread(const TslArgs& args, TslHostThread* self, uint3 block_index, uint3 thread_index) {
  tsl_host_thread = self;
  ValueSums sums;
  const ThreadRow row{&args, block_index, thread_index.y, thread_index.z};
  Kernel kernel{{{thread_index, block_index, block_size(args), grid_size(args), args}, &sums, 0}};
  kernel.stand_in(row);
  run<Kernel, kEntry>(kernel);
  sums.held.end(args);
}

}  // namespace tsl

#endif
