// Products of half and bfloat16 with a block-sparse matrix on Hopper, for blocks too small to be tiles of their own.
//
// Note [lines]
//   A tile's columns are those of kLines lines of blocks, side by side. The lines have blocks in different places, so the warp
//   that fetches merges their lists: a stage of the ring takes the next 64 steps along K where any line has a block. It holds the
//   rows' part there, once for all lines, and the blocks that there are, each in a place of its own, and says which these are. A
//   stage of no blocks is the end.
//   Why lines are put together: a tile of one line of 32 columns would need 128 bytes a clock of its rows alone, and the L2 cache
//   delivers some 40. Why a stage has 64 steps, whatever a block has: rows come in requests of up to 128 bytes, and one of 32
//   bytes takes nearly as long.
//   An instruction for 32 columns reads more of the rows than of its block, and shared memory delivers 128 bytes a clock. Rows in
//   registers would spare that, but a stage could begin only when all products of the one before have ended: 1.3 times the time.
//   Which blocks there are is only known when a stage has come, so each is multiplied by instructions of its own, behind a branch.
//   The compiler keeps them asynchronous as long as there are few such branches; with one for each set of lines it did not.
#pragma once

#include "prelude/mma_wgmma.h"

#if TSL_WGMMA

namespace tsl {

// Lines number `first` up to `end` of `order`: the blocks of line order[k] stand from offsets[order[k]] on, as BlockList says.
struct BlockLines {
  View offsets, order, depths, places;
  uint first, end, base;
};

// kFetched: of the tile's rows, all or the few that there are: then shared memory has something else where the others would be,
// and so have their sums, which are stored nowhere.
template <class T, int kRows, int kLines, int kWidth, int kDepth, int kFetched>
struct LinesProduct {
  using Sum = float;
  static constexpr int kThreads = 256, kColumns = kLines * kWidth, kCount = kRows * kColumns / kThreads;
  static constexpr int kSlabs = kRows / 128, kSums = kColumns / 2, kLineSums = kWidth / 2;  // kSums: of a slab
  // A stage has kParts blocks of a line at most; or a block has kPieces stages.
  static constexpr int kParts = kDepth < 64 ? 64 / kDepth : 1, kPieces = kDepth > 64 ? kDepth / 64 : 1;
  static constexpr int kSteps = kDepth < 64 ? kDepth : 64;  // along K, of a block in a stage
  static constexpr int kInner = kWidth < 64 ? kWidth : 64;  // columns of a box where they are contiguous
  static constexpr int kRowsOfBox = kFetched, kColumnsOfBox = kWidth;
  static constexpr uint kSlabBytes = 8192, kBytesA = kFetched * 128, kBlockBytes = kWidth * kSteps * 2;
  static constexpr uint kStageBytes = kBytesA + kLines * kParts * kBlockBytes;
  static constexpr uint kStoreBytes = 4 * kSlabBytes;  // two pieces of 64 x 64 for each warpgroup
  static constexpr uint kOtherBytes = kStoreBytes + kBarrierBytes + 64;  // the last: which blocks each stage has
  // Of tiles with few rows, and of not too few columns to be so many, a multiprocessor makes two at once: more is under way.
  static constexpr uint kFit = ((kFetched < kRows && kColumns == 64 ? 113 : 227) * 1024 - kOtherBytes) / kStageBytes, kStages = kFit < 8 ? kFit : 8;
  static constexpr int kSharedBytes = int(kStages * kStageBytes + kOtherBytes);
  static_assert(kRows % 128 == 0 && kRows <= 256 && kStages >= 2 && kColumns % 64 == 0 && kColumns <= 256 &&
                    kLines * kParts <= 32 && (kFetched == kRows || kFetched == 16),
                "there is no such tile of lines");

  static TSL_INLINE uint row(uint thread, int i) {
    const uint group = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    return (group * kSlabs + i / kSums) * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
  }
  static TSL_INLINE uint column(uint thread, int i) { return i % kSums / 4 * 8 + thread % 4 * 2 + i % 2; }

  static TSL_INLINE uint stage_at(uint base, uint stage) { return base + stage * kStageBytes; }
  static TSL_INLINE uint store_at(uint base) { return base + kStages * kStageBytes; }
  static TSL_INLINE uint full_at(uint base, uint stage) { return store_at(base) + kStoreBytes + stage * 8; }
  static TSL_INLINE uint empty_at(uint base, uint stage) { return full_at(base, kStages + stage); }
  static TSL_INLINE uint blocks_at(uint base, uint stage) { return full_at(base, 2 * kStages) + stage * 4; }

  struct Ring {
    uint base, stage, phase;
    TSL_INLINE void advance() {
      if (++stage < kStages) return;
      stage = 0;
      phase ^= 1;
    }
  };

  static TSL_INLINE void begin(uint base, uint warp) {
    if (warp == 0 && is_elected()) {
#pragma unroll
      for (uint s = 0; s < kStages; ++s) {
        barrier::init(full_at(base, s), 1);
        barrier::init(empty_at(base, s), 8);
      }
      barrier::publish();
    }
    __syncwarp();
    asm volatile("bar.sync 11, 288;" ::: "memory");
  }

  // --- fetching

  // Where the fetching warp is in the lines. 32 / kLines of its lanes share each: they hold as many blocks of it, know as many
  // more, and have asked for those behind, since a read from memory takes as long as several stages.
  struct Walk {
    static constexpr uint kEnd = ~0u, kEach = 32 / kLines;
    struct Block {
      uint depth, number;  // the second: in its matrix
      TSL_INLINE uint stage() const { return depth == kEnd ? kEnd : depth / kParts; }
      TSL_INLINE uint part() const { return depth % kParts; }
    };
    const BlockLines& lines;
    const uint line, lane;  // the line's number in the tile, and the lane's in the line
    uint at = 0, end = 0;   // the lane reads number `at` next
    uint passed = 0;        // of the blocks that the line's lanes hold
    Block block, next, asked;

    TSL_INLINE Walk(const BlockLines& of, uint thread) : lines(of), line(thread / kEach), lane(thread % kEach) {
      const uint number = of.first + line;
      if (number < of.end) {
        const uint name = uint(of.order.load<int>(number));
        at = uint(of.offsets.load<int>(name)) + lane;
        end = uint(of.offsets.load<int>(name + 1));
      }
      block = read();
      next = read();
      asked = read();
    }
    // Nothing is done here with what comes from memory: that would wait for it.
    TSL_INLINE Block read() {
      Block found{kEnd, at};
      if (at < end) {
        found.depth = uint(lines.depths.load<int>(at));
        if (lines.places.size(0) != 0) found.number = uint(lines.places.load<int>(at));
      }
      at += kEach;
      return found;
    }
    TSL_INLINE uint matrix_of(const Block& one) const { return lines.base + one.number; }
    // The next stage that any line has a block in, or kEnd.
    TSL_INLINE uint nearest() const { return __reduce_min_sync(0xffffffffu, lane >= passed ? block.stage() : next.stage()); }
    TSL_INLINE bool has(uint stage) const { return lane >= passed && block.stage() == stage; }
    TSL_INLINE bool has_next(uint stage) const { return next.stage() == stage; }
    // Passes the stage's blocks.
    TSL_INLINE void pass(uint stage) {
      const uint mine = __ballot_sync(0xffffffffu, has(stage)) >> line * kEach & uint((1ull << kEach) - 1);
      const uint later = __ballot_sync(0xffffffffu, has_next(stage)) >> line * kEach & uint((1ull << kEach) - 1);
      passed += __popc(mine);
      if (passed < kEach) return;
      passed = __popc(later);
      block = next;
      next = asked;
      asked = read();
    }
  };

  // `at`: of the block's first column of 64 steps in shared memory.
  template <bool kTurned> static TSL_INLINE void fetch_block(const TslMatrixMap& blocks, uint at, uint full, int k, uint matrix) {
    if constexpr (kTurned) {
#pragma unroll
      for (int c = 0; c < kWidth; c += kInner) fetch_box(blocks, at + c * kSteps * 2, full, c, k, matrix);
    } else {
      fetch_box(blocks, at, full, k, 0, matrix);
    }
  }

  template <bool kTurned>
  static TSL_INLINE void fetch_all(const TslMatrixMap& a, const TslMatrixMap& blocks, uint batch_a, uint row,
                                   const BlockLines& lines, Ring& ring) {
    Walk walk(lines, threadIdx.x % 32);
#pragma unroll 1
    for (;;) {
      const uint stage = walk.nearest();
      const bool is_end = stage == Walk::kEnd, has = !is_end && walk.has(stage), has_next = !is_end && walk.has_next(stage);
      const uint place = walk.line * kParts + walk.block.part(), next_place = walk.line * kParts + walk.next.part();
      const uint there = __reduce_or_sync(0xffffffffu, uint(has) << place | uint(has_next) << next_place);
#pragma unroll
      for (int k = 0; k < 64 * kPieces; k += 64) {
        const uint full = full_at(ring.base, ring.stage), to = stage_at(ring.base, ring.stage);
        barrier::wait(empty_at(ring.base, ring.stage), ring.phase ^ 1);
        if (is_elected()) {
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(blocks_at(ring.base, ring.stage)), "r"(there) : "memory");
          if (is_end) {
            barrier::arrive(full);
          } else {
            barrier::expect(full, kBytesA + __popc(there) * kBlockBytes);
            fetch_box(a, to, full, stage * (64 * kPieces) + k, row, batch_a);
          }
        }
        __syncwarp();
        if (has) fetch_block<kTurned>(blocks, to + kBytesA + place * kBlockBytes, full, k, walk.matrix_of(walk.block));
        if (has_next) fetch_block<kTurned>(blocks, to + kBytesA + next_place * kBlockBytes, full, k, walk.matrix_of(walk.next));
        __syncwarp();
        ring.advance();
        if (is_end) return;
      }
      walk.pass(stage);
      __syncwarp();
    }
  }

  // --- multiplying

  template <bool kTurned>
  static TSL_INLINE void multiply_block(float* sums, uint a, uint block, int part) {
#pragma unroll
    for (int k = 0; k < kSteps / 16; ++k) {
      const ulonglong right = kTurned ? swizzled_descriptor<kInner * 2>(block, kSteps * kInner * 2) + k * (kInner * 2)
                                      : swizzled_descriptor<kSteps * 2>(block, 0) + k * 2;
      const int step = part * (kSteps / 16) + k;
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) {
        const ulonglong left = swizzled_descriptor<128>(a + s * kSlabBytes, 0) + step * 2;
        multiply_tiles<T, kWidth, false, kTurned>(sums + s * kSums, left, right);
      }
    }
  }

  template <bool kTurned> static TSL_INLINE void multiply_all(float* sums, uint thread, uint warp, Ring& ring) {
    const bool gives_back = thread % 32 == 0;
    const uint group = warp / 4;
    uint before = kStages;
#pragma unroll 1
    for (;;) {
      barrier::wait(full_at(ring.base, ring.stage), ring.phase);
      uint there;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(there) : "r"(blocks_at(ring.base, ring.stage)) : "memory");
      there = __shfl_sync(0xffffffffu, there, 0);
      if (there == 0) break;
      const uint stage = stage_at(ring.base, ring.stage), a = stage + group * kSlabs * kSlabBytes;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          const int place = l * kParts + p;
          if (there >> place & 1u) multiply_block<kTurned>(sums + l * kLineSums, a, stage + kBytesA + place * kBlockBytes, p);
        }
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (before < kStages && gives_back) barrier::arrive(empty_at(ring.base, before));
      before = ring.stage;
      ring.advance();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (before < kStages && gives_back) barrier::arrive(empty_at(ring.base, before));
    if (gives_back) barrier::arrive(empty_at(ring.base, ring.stage));
    ring.advance();
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
  }

  template <bool kTurned>
  static TSL_INLINE void multiply(float* sums, const MappedMatrix& a, const MappedMatrix& blocks, const BlockLines& lines,
                                  uint3 at, uint thread, uint warp, Ring& ring) {
    if (warp < kThreads / 32) {
      multiply_all<kTurned>(sums, thread, warp, ring);
    } else {
      fetch_all<kTurned>(a.map, blocks.map, a.batches > 1 ? at.x : 0, at.y, lines, ring);
#pragma unroll
      for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(sums[i]));
    }
  }

  // --- storing

  // Each line where its columns are, by way of shared memory; the TMA leaves out elements outside.
  static TSL_INLINE void store(const float* sums, const MappedMatrix& c, uint3 at, View order, uint first, uint end,
                               uint thread, uint warp, uint base) {
    constexpr int kRowBytes = kInner * 2, kWords = kRowBytes / 16, kBoxes = 64 / kInner;
    const uint group = warp / 4, lane = thread % 32, own_row = warp % 4 * 16 + lane % 16;
    const uint mine = store_at(base) + group * 2 * kSlabBytes, turn = own_row * kRowBytes / 128 % kWords;
    const bool issues = thread % 128 == 0;
    uint lefts[kLines];  // of all lines at once: a load from memory takes as long as a piece to be stored
#pragma unroll
    for (int l = 0; l < kLines; ++l) lefts[l] = issues && first + l < end ? uint(order.load<int>(first + l)) * kWidth : 0u;
#pragma unroll
    for (int piece = 0; piece < kSlabs * kColumns / 64; ++piece) {
      const int slab = piece / (kColumns / 64), left = piece % (kColumns / 64) * 64;
      const uint buffer = mine + piece % 2 * kSlabBytes;
      if (issues) {  // an earlier piece may have been in the same buffer
        if (piece == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        else asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kBoxes) : "memory");
      }
      asm volatile("bar.sync %0, 128;" ::"r"(group + 9) : "memory");
#pragma unroll
      for (int j = 0; j < 4; ++j) {  // 16 columns each
        const float* e = sums + slab * kSums + left / 2 + j * 8;
        const uint word = j * 2 + lane / 16, box = word / kWords;
        const uint to = buffer + box * (64 * kRowBytes) + own_row * kRowBytes + (word % kWords ^ turn) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pack<T>(e[0], e[1])),
                     "r"(pack<T>(e[2], e[3])), "r"(pack<T>(e[4], e[5])), "r"(pack<T>(e[6], e[7]))
                     : "memory");
      }
      publish_to_async();
      asm volatile("bar.sync %0, 128;" ::"r"(group + 9) : "memory");
      if (issues) {
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {  // a group each, also of lines that are not there
          const int column = left + box * kInner, line = column / kWidth;
          if (first + line < end) {
            store_box(c.map, buffer + box * (64 * kRowBytes), lefts[line] + column % kWidth, at.y + (group * kSlabs + slab) * 64, c.batches > 1 ? at.x : 0);
          } else {
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
          }
        }
      }
    }
  }
  // Where the TMA cannot store.
  static TSL_INLINE void store_elements(const float* sums, Matrix<T> to, uint3 at, View order, uint first, uint end,
                                        uint thread) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint in_tile = column(thread, i), number = first + in_tile / kWidth;
      if (number >= end) continue;
      const uint r = at.y + row(thread, i), c = uint(order.load<int>(number)) * kWidth + in_tile % kWidth;
      if (r < to.rows && c < to.columns) to.data[longlong(r) * to.row_stride + longlong(c) * to.column_stride] = T(sums[i]);
    }
  }
};

}  // namespace tsl

#endif
