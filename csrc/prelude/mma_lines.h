// Products of half and bfloat16 with a block-sparse matrix on Hopper, for blocks too small to be tiles of their own.
//
// Note [lines]
//   A tile's columns are those of kLines lines of blocks, side by side. The lines have blocks in different places, so the warp
//   that fetches merges their lists: lane l follows line l, and a stage of the ring takes the nearest place where any line has a
//   block. It holds the rows' part there, once for all lines, and the blocks of those lines that have one, and says which these
//   are. A stage of no lines is the end.
//   A block's place along K is a stage if it has up to 64 steps; of 128 it is two stages. So rows of shared memory have 32, 64 or
//   128 bytes, as wide as the swizzle of the TMA.
//   Which lines there are is only known when a stage has come, so each is multiplied by instructions of its own, behind a branch.
//   The compiler keeps them asynchronous as long as there are few such branches; with one for each set of lines it did not.
//   Why lines are put together: a tile of one line of 32 columns would need 128 bytes a clock of its rows alone, and the L2 cache
//   delivers some 40.
#pragma once

#include "prelude/mma_wgmma.h"

#if TSL_WGMMA

namespace tsl {

// Lines number `first` up to `end` of `order`: the blocks of line order[k] stand from offsets[order[k]] on, as BlockList says.
struct BlockLines {
  TensorView offsets, order, depths, places;
  uint first, end, base;
};

template <class T, int kRows, int kLines, int kWidth, int kDepth>
struct LinesProduct {
  using Sum = float;
  static constexpr int kThreads = 256, kColumns = kLines * kWidth, kCount = kRows * kColumns / kThreads;
  static constexpr int kSlabs = kRows / 128, kSums = kColumns / 2, kLineSums = kWidth / 2;
  static constexpr int kStep = kDepth < 64 ? kDepth : 64;  // along K, of a stage
  static constexpr int kInner = kWidth < 64 ? kWidth : 64;  // of a row of a block whose columns are contiguous
  static constexpr int kBoxRows = kRows < 256 ? kRows : 256, kBoxColumns = kWidth;
  static constexpr uint kBytesA = kRows * kStep * 2, kLineBytes = kWidth * kStep * 2, kStageBytes = kBytesA + kLines * kLineBytes;
  static constexpr uint kOtherBytes = kBarrierBytes + 64;  // and what lines each stage has
  static constexpr uint kFit = (227 * 1024 - kOtherBytes) / kStageBytes, kStages = kFit < 8 ? kFit : 8;
  static constexpr int kSharedBytes = int(kStages * kStageBytes + kOtherBytes);
  static_assert(kRows % 128 == 0 && kStages >= 2 && kColumns <= 256 && kLines <= 4, "there is no such tile of lines");

  static TSL_INLINE uint row(uint thread, int i) {
    const uint group = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    return (group * kSlabs + i / kSums) * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
  }
  static TSL_INLINE uint column(uint thread, int i) { return i % kSums / 4 * 8 + thread % 4 * 2 + i % 2; }

  static TSL_INLINE uint stage_at(uint base, uint stage) { return base + stage * kStageBytes; }
  static TSL_INLINE uint full_at(uint base, uint stage) { return base + kStages * kStageBytes + stage * 8; }
  static TSL_INLINE uint empty_at(uint base, uint stage) { return full_at(base, kStages + stage); }
  static TSL_INLINE uint lines_at(uint base, uint stage) { return full_at(base, 2 * kStages) + stage * 4; }

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

  // A line's blocks, one after the other, as one lane sees them. The next one is read ahead.
  struct Walk {
    static constexpr uint kEnd = ~0u;
    const BlockLines& lines;
    uint at, end, depth, matrix, next_depth, next_matrix;

    TSL_INLINE Walk(const BlockLines& of, uint lane) : lines(of), at(0), end(0) {
      if (of.first + lane < of.end && lane < kLines) {
        const uint line = uint(of.order.load<int>(of.first + lane));
        at = uint(of.offsets.load<int>(line));
        end = uint(of.offsets.load<int>(line + 1));
      }
      read(depth, matrix);
      read(next_depth, next_matrix);
    }
    TSL_INLINE void read(uint& to_depth, uint& to_matrix) {
      const bool there = at < end;
      to_depth = there ? uint(lines.depths.load<int>(at)) : kEnd;
      to_matrix = lines.base + (!there ? 0u : lines.places.size(0) == 0 ? at : uint(lines.places.load<int>(at)));
      ++at;
    }
    TSL_INLINE void advance() {
      depth = next_depth;
      matrix = next_matrix;
      read(next_depth, next_matrix);
    }
  };

  template <bool kTurned>
  static TSL_INLINE void fetch_all(const TslMatrixMap& a, const TslMatrixMap& blocks, uint batch_a, uint row,
                                   const BlockLines& lines, Ring& ring) {
    Walk walk(lines, threadIdx.x % 32);
#pragma unroll 1
    for (;;) {
      const uint depth = __reduce_min_sync(0xffffffffu, walk.depth);
      const uint there = depth == Walk::kEnd ? 0u : __ballot_sync(0xffffffffu, walk.depth == depth);
      uint matrix[kLines];
#pragma unroll
      for (int l = 0; l < kLines; ++l) matrix[l] = __shfl_sync(0xffffffffu, walk.matrix, l);
#pragma unroll
      for (int k = 0; k < kDepth; k += kStep) {
        const uint full = full_at(ring.base, ring.stage), to = stage_at(ring.base, ring.stage);
        barrier::wait(empty_at(ring.base, ring.stage), ring.phase ^ 1);
        if (is_elected()) {
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(lines_at(ring.base, ring.stage)), "r"(there) : "memory");
          if (there == 0) {
            barrier::arrive(full);
          } else {
            barrier::expect(full, kBytesA + __popc(there) * kLineBytes);
#pragma unroll
            for (int r = 0; r < kRows; r += kBoxRows) fetch_box(a, to + r * kStep * 2, full, depth * kDepth + k, row + r, batch_a);
#pragma unroll
            for (int l = 0; l < kLines; ++l) {
              const uint at = to + kBytesA + l * kLineBytes;
              if (!(there >> l & 1u)) continue;
              if constexpr (kTurned) {
#pragma unroll
                for (int c = 0; c < kWidth; c += kInner) fetch_box(blocks, at + c * kStep * 2, full, c, k, matrix[l]);
              } else {
                fetch_box(blocks, at, full, k, 0, matrix[l]);
              }
            }
          }
        }
        __syncwarp();
        ring.advance();
        if (there == 0) return;
      }
      if (walk.depth == depth) walk.advance();
      __syncwarp();
    }
  }

  template <int kRowBytes> static TSL_INLINE ulonglong descriptor(uint at, uint leading) {
    constexpr ulonglong kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
    return ulonglong((at & 0x3ffffu) >> 4) | ulonglong(leading >> 4) << 16 | ulonglong(kRowBytes * 8 >> 4) << 32 | kSwizzle << 62;
  }

  template <bool kTurned, int kLine> static TSL_INLINE void multiply_line(float* sums, uint a, uint b) {
#pragma unroll
    for (int k = 0; k < kStep / 16; ++k) {
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) {
        const ulonglong right = kTurned ? descriptor<kInner * 2>(b + kLine * kLineBytes, kStep * kInner * 2) + k * (kInner * 2)
                                        : descriptor<kStep * 2>(b + kLine * kLineBytes, 0) + k * 2;
        multiply_tiles<T, kWidth, false, kTurned>(sums + s * kSums + kLine * kLineSums,
                                                  descriptor<kStep * 2>(a + s * 64 * kStep * 2, 0) + k * 2, right);
      }
    }
  }
  template <bool kTurned, int kLine = 0> static TSL_INLINE void multiply_stage(float* sums, uint lines, uint a, uint b) {
    if constexpr (kLine < kLines) {
      if (lines >> kLine & 1u) multiply_line<kTurned, kLine>(sums, a, b);
      multiply_stage<kTurned, kLine + 1>(sums, lines, a, b);
    }
  }

  template <bool kTurned> static TSL_INLINE void multiply_all(float* sums, uint thread, uint warp, Ring& ring) {
    const bool gives_back = thread % 32 == 0;
    const uint group = warp / 4;
    uint before = kStages;
#pragma unroll 1
    for (;;) {
      barrier::wait(full_at(ring.base, ring.stage), ring.phase);
      uint lines;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(lines) : "r"(lines_at(ring.base, ring.stage)) : "memory");
      lines = __shfl_sync(0xffffffffu, lines, 0);
      if (lines == 0) break;
      const uint stage = stage_at(ring.base, ring.stage);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_stage<kTurned>(sums, lines, stage + group * (kSlabs * 64 * kStep * 2), stage + kBytesA);
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

  // Each line where its columns are; what lies outside is left out.
  static TSL_INLINE void store(const float* sums, Matrix<T> to, uint3 at, TensorView order, uint first, uint end, uint thread) {
    const bool by_words = to.column_stride == 1 && has_words(to.data, to.row_stride);
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
      if (first + l >= end) continue;
      const uint left = uint(order.load<int>(first + l)) * kWidth;
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) {
        const int element = s * kSums + l * kLineSums;
        const uint3 corner{at.x, at.y, left - l * kWidth};  // of the tile, if all its lines were neighbours
        if (by_words) store_words<LinesProduct, kLineSums>(sums + element, element, to, corner, thread);
        else store_elements(sums, element, to, corner, thread);
      }
    }
  }

 private:
  static TSL_INLINE void store_elements(const float* sums, int first, Matrix<T> to, uint3 at, uint thread) {
#pragma unroll
    for (int i = first; i < first + kLineSums; ++i) {
      const uint r = at.y + row(thread, i), c = at.z + column(thread, i);
      if (r < to.rows && c < to.columns) to.data[longlong(r) * to.row_stride + longlong(c) * to.column_stride] = T(sums[i]);
    }
  }
};

}  // namespace tsl

#endif
