// The block and the grid of a launch as the kernel sees them, and how one thread is run.
#pragma once

#include "prelude/kernel_base.h"

namespace tsl {

TSL_INLINE uint3 grid_size(const TslArgs& args) {
  return {args.header.grid[0], args.header.grid[1], args.header.grid[2]};
}

// Constants where all launches have the same.
TSL_INLINE uint3 block_size(const TslArgs& args) {
#ifdef TSL_BLOCK
  return {TSL_BLOCK};
#elif TSL_CUDA
  return {blockDim.x, blockDim.y, blockDim.z};  // cheaper than the argument block
#else
  return {args.header.block[0], args.header.block[1], args.header.block[2]};
#endif
}

// One thread from beginning to end; its wrapper returns here however the kernel returned.
template <class Kernel, void (Kernel::*kEntry)()> TSL_FLAT void run(Kernel& kernel) {
  kernel.own.begin(kernel);
  (kernel.*kEntry)();
  kernel.own.end(kernel);
}

// One thread, told on which side of the launch's bounds it is: what it does there then folds. Not where a wave's or a block's
// threads do something together, which those of both sides then must.
template <class Kernel, void (Kernel::*kEntry)(), bool kIsBounded>
TSL_INLINE void run_on_either_side(Kernel& kernel, uint3 bounds) {
  constexpr bool kMeets = TSL_WAVES || TSL_BARRIERS || (TSL_CUDA && TSL_VALUE_SUMS);
  if (kIsBounded && !kMeets && kernel.template coordinate<0>() < bounds.x && kernel.template coordinate<1>() < bounds.y &&
      kernel.template coordinate<2>() < bounds.z) {
    run<Kernel, kEntry>(kernel);
  } else {
    run<Kernel, kEntry>(kernel);
  }
}

}  // namespace tsl
