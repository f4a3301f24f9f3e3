// The threads of a block on a GPU, each of which runs several threads of the launch.
//
// Note [virtual threads]
//   A kernel that handles one element a thread has one load in flight, which is too little to keep the memory busy. So a
//   hardware block stands for a tile of blocks of the launch, and its threads run those blocks' threads, each with an object
//   of its own: threadIdx, blockIdx, blockDim and gridDim are what the user launched. The tile is `kGroups` blocks long along one
//   axis, and TSL_LANES times as long along x: there a thread runs threads that follow each other (Note [vector accesses]). Where threads
//   along the axis share elements, the hardware block runs `kRepeats` tiles one after the other (Note [shared elements]).
//   Where the whole tile lies below the launch's bounds that is told to the compiler: the kernel's guard folds, and the loads of
//   all its threads stand together in straight-line code. The facts told are true whatever the kernel does.
//   A grid that has more blocks along y or z than the hardware takes is launched as one row of as many (TSL_FLAT_GRID).
//   Threads that meet (barriers, wave operations) have one object each: a tile is one block there.
#pragma once

#include "prelude/block_size.h"

#if TSL_CUDA

namespace tsl {

template <int kGroups_, int kAxis_, int kRepeats_>
struct TileShape {
  static constexpr uint kGroups = kGroups_, kAxis = kAxis_, kRepeats = kRepeats_;
  static constexpr uint3 kBlocks{(kAxis == 0 ? kGroups : 1) * TSL_LANES, kAxis == 1 ? kGroups : 1, kAxis == 2 ? kGroups : 1};
};

// Blocks of the launch that a hardware block runs together.
template <class Shape>
struct Tile {
  static constexpr uint3 kBlocks = Shape::kBlocks;

  uint3 first, block, grid;

  // The hardware block's tile number `repeat`.
  TSL_INLINE Tile(const TslArgs& args, uint repeat)
      : block(block_size(args)), grid(grid_size(args)) {
    const uint3 at = place();
    first = {at.x * kBlocks.x, at.y * kBlocks.y, at.z * kBlocks.z};
    if constexpr (Shape::kAxis == 0) first.x += repeat * kBlocks.x;
    if constexpr (Shape::kAxis == 1) first.y += repeat * kBlocks.y;
    if constexpr (Shape::kAxis == 2) first.z += repeat * kBlocks.z;
  }

  TSL_INLINE bool exists() const { return first.x < grid.x && first.y < grid.y && first.z < grid.z; }
  // Of its blocks those that the launch has: the last tile of an axis may lack some.
  TSL_INLINE uint3 there() const {
    return {min(grid.x - first.x, kBlocks.x), min(grid.y - first.y, kBlocks.y), min(grid.z - first.z, kBlocks.z)};
  }
  TSL_INLINE bool is_whole() const {
    const uint3 blocks = there();
    return blocks.x == kBlocks.x && blocks.y == kBlocks.y && blocks.z == kBlocks.z;
  }
  // `bounds`: how many threads there are along each axis.
  TSL_INLINE bool is_inside(uint3 bounds) const {
    return is_below(first.x * block.x, kBlocks.x * block.x, bounds.x) &&
           is_below(first.y * block.y, kBlocks.y * block.y, bounds.y) &&
           is_below(first.z * block.z, kBlocks.z * block.z, bounds.z);
  }

 private:
  // Of the hardware block's first tile, in tiles.
  TSL_INLINE uint3 place() const {
#if TSL_FLAT_GRID
    const uint x = hardware_blocks<0>(grid.x), y = hardware_blocks<1>(grid.y), row = blockIdx.x / x;
    const uint3 at{blockIdx.x - row * x, row % y, row / y};
#else
    const uint3 at{blockIdx.x, blockIdx.y, blockIdx.z};
#endif
    return {at.x * repeats<0>(), at.y * repeats<1>(), at.z * repeats<2>()};
  }
  template <uint kOf> static TSL_INLINE constexpr uint repeats() { return kOf == Shape::kAxis ? Shape::kRepeats : 1u; }
  template <uint kOf> static TSL_INLINE uint hardware_blocks(uint blocks) {
    return (blocks - 1) / ((kOf == 0 ? kBlocks.x : kOf == 1 ? kBlocks.y : kBlocks.z) * repeats<kOf>()) + 1;
  }
  static TSL_INLINE bool is_below(uint begin, uint length, uint bound) { return length <= bound && begin <= bound - length; }
};

// Of a kernel without vectors, and of one without shared elements.
struct NoVectors {
  template <class Thread> TSL_INLINE void begin(const Thread&) {}
  template <class Thread> TSL_INLINE void end(const Thread&) const {}
};
struct NothingShared {
  template <class Thread> TSL_INLINE void end(const Thread&) {}
};

// The threads of a tile inside the bounds. The hardware block's threads stand along x in rows of groups of lanes, TSL_LANES
// rows in all; each row is a block of the launch.
template <class Kernel, void (Kernel::*kEntry)(), class Vectors, class Shared, class Shape, bool kIsBounded>
struct WholeTile {
  static constexpr uint kNumbers = Shape::kGroups * TSL_LANES;

  const Tile<Shape> tile;
  const TslArgs& args;
  uint3 bounds;
  Shared* shared;
  uint first_number;  // that of a thread's first virtual one in this tile
  bool is_last;

  TSL_INLINE uint row_length() const { return tile.block.x / TSL_LANES; }
  TSL_INLINE uint3 thread(uint lane) const {
    return {(TSL_LANES > 1 ? threadIdx.x % row_length() * TSL_LANES : threadIdx.x) + lane, threadIdx.y, threadIdx.z};
  }
  TSL_INLINE uint3 block(uint group) const {
    return {tile.first.x + (Shape::kAxis == 0 ? group * TSL_LANES : 0u) + (TSL_LANES > 1 ? threadIdx.x / row_length() : 0u),
            tile.first.y + (Shape::kAxis == 1 ? group : 0u), tile.first.z + (Shape::kAxis == 2 ? group : 0u)};
  }
  TSL_INLINE ThreadBase first_lane(uint group) const { return {thread(0), block(group), tile.block, tile.grid, args}; }

  TSL_INLINE void run(ValueSums& sums) const {
    Vectors vectors[Shape::kGroups];
    begin_from<0>(vectors);
    run_from<0>(vectors, sums);
  }

 private:
  template <uint kGroup> TSL_INLINE void begin_from(Vectors* vectors) const {
    if constexpr (kGroup < Shape::kGroups) {
      vectors[kGroup].begin(first_lane(kGroup));
      begin_from<kGroup + 1>(vectors);
    }
  }
  template <uint kNumber> TSL_INLINE void run_from(Vectors* vectors, ValueSums& sums) const {
    if constexpr (kNumber < kNumbers) {
      constexpr uint kGroup = kNumber / TSL_LANES, kLane = kNumber % TSL_LANES;
      sums.is_last = is_last && kNumber + 1 == kNumbers;
      Kernel kernel{{{thread(kLane), block(kGroup), tile.block, tile.grid, args}, &sums, first_number + kNumber}};
      kernel.lane = kLane;
#if TSL_LANES > 1
      kernel.vectors = &vectors[kGroup];
#endif
#if TSL_SHARED_SUMS
      kernel.shared = shared;
#endif
      if (kIsBounded) {
        __builtin_assume(kernel.template coordinate<0>() < bounds.x);
        __builtin_assume(kernel.template coordinate<1>() < bounds.y);
        __builtin_assume(kernel.template coordinate<2>() < bounds.z);
      }
      tsl::run<Kernel, kEntry>(kernel);
      if (kLane + 1 == TSL_LANES) vectors[kGroup].end(first_lane(kGroup));
      run_from<kNumber + 1>(vectors, sums);
    }
  }
};

// The threads of a tile at the launch's end, block by block. Returns how many a thread has run.
template <class Kernel, void (Kernel::*kEntry)(), class Shape, bool kIsBounded>
TSL_INLINE uint run_part(const Tile<Shape>& tile, const TslArgs& args, uint3 bounds, ValueSums& sums, uint first_number,
                         bool is_last) {
  const uint3 thread{threadIdx.x, threadIdx.y, threadIdx.z};
  const uint3 blocks = tile.there();
  const uint count = blocks.x * blocks.y * blocks.z;
  uint3 at{0, 0, 0};
#pragma unroll 1
  for (uint number = 0; number < count; ++number) {
    sums.is_last = is_last && number + 1 == count;
    const uint3 block{tile.first.x + at.x, tile.first.y + at.y, tile.first.z + at.z};
    Kernel kernel{{{thread, block, tile.block, tile.grid, args}, &sums, first_number + number}};
    run_on_either_side<Kernel, kEntry, kIsBounded>(kernel, bounds);
    if (++at.x < blocks.x) continue;
    at.x = 0;
    (Shape::kAxis == 2 ? at.z : at.y) += 1;
  }
  return count;
}

// Note [tiled waves]
//   The hardware makes waves of threads that follow each other along x: in a block of 16 x 16, a wave is two rows. A kernel that draws
//   or filters a picture is faster if a wave's pixels are close to each other in both directions: a wave skips an object that
//   none of its pixels sees, and more of its lanes add to the same element of a gradient at once. So a wave may be a tile of
//   8 x 4 threads of the block instead. Only which threads share a wave changes; the run-time measures whether it pays. A kernel
//   that asks for its lanes keeps the hardware's waves, and so does a block that does not consist of tiles.
TSL_INLINE uint3 thread_of_tile() {
  constexpr uint kWidth = kTslTileWidth, kHeight = kTslTileHeight;
  if (blockDim.x % kWidth != 0 || blockDim.y % kHeight != 0) return {threadIdx.x, threadIdx.y, threadIdx.z};
  const uint number = threadIdx.y * blockDim.x + threadIdx.x, wave = number / 32, lane = number % 32;
  const uint across = blockDim.x / kWidth;
  return {wave % across * kWidth + lane % kWidth, wave / across * kHeight + lane / kWidth, threadIdx.z};
}

// `bounds`: how many threads there are along each axis by the launch's total, where kIsBounded.
template <class Kernel, void (Kernel::*kEntry)(), class Vectors, class Shared, class Shape, bool kIsBounded>
TSL_INLINE void run_tiles(const TslArgs& args, uint3 bounds) {
  using Whole = WholeTile<Kernel, kEntry, Vectors, Shared, Shape, kIsBounded>;
  ValueSums sums;
  if constexpr (Whole::kNumbers * Shape::kRepeats == 1 && !TSL_SHARED_SUMS) {
    const uint3 thread = TSL_TILED_WAVES ? thread_of_tile() : uint3{threadIdx.x, threadIdx.y, threadIdx.z};
#if TSL_FLAT_GRID
    const uint3 block = Tile<Shape>(args, 0).first, grid = grid_size(args);
#else
    const uint3 block{blockIdx.x, blockIdx.y, blockIdx.z}, grid{gridDim.x, gridDim.y, gridDim.z};
#endif
    Kernel kernel{{{thread, block, block_size(args), grid, args}, &sums, 0u}};
    run_on_either_side<Kernel, kEntry, kIsBounded>(kernel, bounds);
  } else {
    Shared shared;
    uint number = 0;
#pragma unroll 1
    for (uint repeat = 0; repeat < Shape::kRepeats; ++repeat) {
      const Tile<Shape> tile(args, repeat);
      if (repeat > 0 && !tile.exists()) break;
      const bool is_last = repeat + 1 == Shape::kRepeats || !Tile<Shape>(args, repeat + 1).exists();
      if (tile.is_whole() && (!kIsBounded || tile.is_inside(bounds))) {
        Whole{tile, args, bounds, &shared, number, is_last}.run(sums);
        number += Whole::kNumbers;
      } else {
        number += run_part<Kernel, kEntry, Shape, kIsBounded>(tile, args, bounds, sums, number, is_last);
      }
    }
    shared.end(Whole{Tile<Shape>(args, 0), args, bounds, nullptr, 0, false}.first_lane(0));
  }
  sums.held.end(args);
}

}  // namespace tsl

#endif
