// How the blocks of a launch go through its tiles: Note [matrix kernels] in mma.h.
#pragma once

#include "prelude/block_size.h"
#include "prelude/mma_tile.h"

#ifdef TSL_BLOCK
namespace tsl {
constexpr uint kLaunchBlock[] = {TSL_BLOCK};
static_assert(kLaunchBlock[0] == 256 && kLaunchBlock[1] == 1 && kLaunchBlock[2] == 1,
              "a kernel that multiplies matrices needs [BlockSize(256, 1, 1)]");
}  // namespace tsl
#endif

namespace tsl {

#if TSL_CUDA

constexpr uint kTileThreads = TSL_WGMMA ? 288 : 256;
extern __shared__ __align__(1024) unsigned char tsl_dynamic_shared[];

// Divisions take long, and nearly all grids are rows.
TSL_INLINE uint3 block_of_number(uint number, uint3 grid) {
  if (grid.y == 1 && grid.z == 1) return {number, 0, 0};
  const uint rows = number / grid.x;
  return {number % grid.x, rows % grid.y, rows / grid.y};
}

// The block that is as far from the grid's end as this one is from its beginning, at the same place in its cluster.
TSL_INLINE uint opposite_block() {
  uint together = 1;
#if TSL_CLUSTERS
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(together));
#endif
  return (gridDim.x / together - 1 - blockIdx.x / together) * together + blockIdx.x % together;
}

template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_matrix_tiles(const TslArgs& args) {
  TSL_MARK_NUMBER("block", kTileThreads);
  TileBlock block{threadIdx.x, tsl_dynamic_shared};
#if TSL_WGMMA
  block.warp = warp_of(block.thread);
  if (block.warp == 7 && is_elected()) prefetch_maps(args);
  block.base = hidden(shared_address(tsl_dynamic_shared));  // else it is made anew wherever it is needed
#endif
  const uint3 grid = grid_size(args);
  const uint count = grid.x * grid.y * grid.z;  // the launcher sees to it that there are not too many
  // Where tiles differ, the longest come first: so blocks take them back and forth, or the first ones would have most to do.
  const uint opposite = opposite_block();
#pragma unroll 1
  for (uint first = 0, turn = 0; first < count; first += gridDim.x, ++turn) {
    const uint number = first + (turn % 2 == 0 ? blockIdx.x : opposite);
    if (number >= count) break;
    ValueSums sums;
    const uint3 thread{block.thread, 0, 0}, index = block_of_number(number, grid);
    Kernel kernel{{{{thread, index, uint3{256, 1, 1}, grid, args}, &sums, 0u}, block}};
    run<Kernel, kEntry>(kernel);
  }
#if TSL_WGMMA
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // stores have read shared memory
#endif
#if TSL_CLUSTERS
  if (block.is_reached) {
    __syncwarp();
    cluster::arrive();
    cluster::wait();
  }
#endif
}

#else

template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_matrix_block(const TslArgs& args, const TslArgs& given, uint3 index) {
  const ThreadRow row{&given, index};
  for (uint t = 0; t < 256; ++t) {
    TileBlock block{t};
    ValueSums sums;
    Kernel kernel{{{{uint3{t, 0, 0}, index, uint3{256, 1, 1}, grid_size(args), args}, &sums, 0u}, block}};
    kernel.stand_in(row);
    run<Kernel, kEntry>(kernel);
  }
}

#endif

}  // namespace tsl
