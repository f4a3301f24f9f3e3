// The threads of a block on a GPU, each of which runs several threads of the launch.
//
// Note [virtual threads]
//   A kernel that handles one element a thread has one load in flight, which is too little to keep the memory busy. So a
//   hardware block stands for `kCount` blocks of the launch that follow each other along one axis, and its threads run
//   those blocks' threads, each with an object of its own: threadIdx, blockIdx, blockDim and gridDim are what the user
//   launched. Where the whole tile lies below the launch's bounds that is told to the compiler: the kernel's guard folds,
//   and the loads of all its threads stand together in straight-line code. What is told is true whatever the kernel does.
//   Threads that meet (barriers, wave operations) have one object each: kCount is 1 there.
#pragma once

#include "prelude/block_size.h"

#if TSL_CUDA

namespace tsl {

// `bounds`: how many threads there are along each axis by the launch's total, where kIsBounded.
template <class Kernel, void (Kernel::*kEntry)(), int kCount, int kAxis, bool kIsBounded>
TSL_INLINE void run_tile(const TslArgs& args, uint3 bounds) {
  const uint3 thread{threadIdx.x, threadIdx.y, threadIdx.z};
  const uint3 block = block_size(args);
  ValueSums sums;
  if constexpr (kCount == 1) {
    Kernel kernel{{{thread, uint3{blockIdx.x, blockIdx.y, blockIdx.z}, block, uint3{gridDim.x, gridDim.y, gridDim.z}, args}, &sums, 0u}};
    run_on_either_side<Kernel, kEntry, kIsBounded>(kernel, bounds);
  } else {
    const uint3 grid = grid_size(args);
    const uint3 first{blockIdx.x * (kAxis == 0 ? kCount : 1), blockIdx.y * (kAxis == 1 ? kCount : 1),
                      blockIdx.z * (kAxis == 2 ? kCount : 1)};
    const uint first_block = kAxis == 0 ? first.x : kAxis == 1 ? first.y : first.z;
    const uint blocks = kAxis == 0 ? grid.x : kAxis == 1 ? grid.y : grid.z;
    const uint3 tile{block.x * (kAxis == 0 ? kCount : 1), block.y * (kAxis == 1 ? kCount : 1), block.z * (kAxis == 2 ? kCount : 1)};
    const auto is_below = [](uint begin, uint length, uint bound) TSL_INLINE_LAMBDA { return length <= bound && begin <= bound - length; };
    const auto block_at = [&](uint u) TSL_INLINE_LAMBDA {
      return uint3{first.x + (kAxis == 0 ? u : 0u), first.y + (kAxis == 1 ? u : 0u), first.z + (kAxis == 2 ? u : 0u)};
    };
    const bool is_inside = is_below(first.x * block.x, tile.x, bounds.x) && is_below(first.y * block.y, tile.y, bounds.y) &&
                           is_below(first.z * block.z, tile.z, bounds.z);
    if (blocks - first_block >= kCount && (!kIsBounded || is_inside)) {
#pragma unroll
      for (uint u = 0; u < kCount; ++u) {
        sums.is_last = u + 1 == kCount;
        Kernel kernel{{{thread, block_at(u), block, grid, args}, &sums, u}};
        if (kIsBounded) {
          __builtin_assume(kernel.template coordinate<0>() < bounds.x);
          __builtin_assume(kernel.template coordinate<1>() < bounds.y);
          __builtin_assume(kernel.template coordinate<2>() < bounds.z);
        }
        run<Kernel, kEntry>(kernel);
      }
    } else {
      const uint count = blocks - first_block < kCount ? blocks - first_block : kCount;
#pragma unroll 1
      for (uint u = 0; u < count; ++u) {
        sums.is_last = u + 1 == count;
        Kernel kernel{{{thread, block_at(u), block, grid, args}, &sums, u}};
        run_on_either_side<Kernel, kEntry, kIsBounded>(kernel, bounds);
      }
    }
  }
}

}  // namespace tsl

#endif
