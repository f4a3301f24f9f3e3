// Products of half and bfloat16 on Hopper of which only some blocks are wanted: what dense x dense -> sparse is made of.
//
// Note [gathered columns]
//   Tiles of single blocks would be small, and small tiles wait for the L2 cache (Note [wgmma]). So a tile has the rows of
//   several blocks, one below the other, and columns of b wherever they are: groups of 64, those in which any of its rows has a
//   block. In shared memory the groups lie side by side, so the product is that of a dense tile. The other elements are
//   dropped: of a random pattern of density d, with h blocks in a tile's group, 1 - d / (1 - (1 - d)^h) of it.
//   Why 64, whatever a block has: they are 128 bytes of a row, and the TMA takes nearly as long for 32.
#pragma once

#include "prelude/mma_wgmma.h"

#if TSL_WGMMA

namespace tsl {

// Groups of 64 columns: columns[first] up to columns[end] of them.
struct ColumnGroups {
  View columns;
  uint first, end;
  TSL_INLINE uint operator[](uint i) const { return uint(columns.load<int>(first + i)); }
  TSL_INLINE uint size() const { return end - first; }
};

template <class T, int kTileRows, int kTileColumns>
struct GatheredProduct : WarpgroupProduct<T, kTileRows, kTileColumns, false, 0> {
  using Tile = WarpgroupProduct<T, kTileRows, kTileColumns, false, 0>;
  using Ring = typename Tile::Ring;
  static constexpr int kGroup = 64, kGroups = kTileColumns / kGroup, kRowsOfBox = kTileRows, kColumnsOfBox = kGroup;
  static_assert(kTileRows == 128 && kTileColumns % kGroup == 0, "there is no such tile of gathered columns");

  // A lane fetches a group.
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE void fetch_all(const TslMatrixMap& a, const TslMatrixMap& b, uint batch_a, uint batch_b, uint depth,
                                   uint row, const ColumnGroups& groups, Ring ring) {
    const uint lane = threadIdx.x % 32, count = least(groups.size(), uint(kGroups));
    const bool has = lane < count;
    const uint column = has ? groups[lane] * kGroup : 0u, bytes = Tile::kBytesA + count * Tile::kSlabBytes;
#pragma unroll 1
    for (uint k = 0; k < depth; k += 64) {
      const uint full = Tile::full_at(ring.base, ring.stage), to = Tile::stage_at(ring.base, ring.stage);
      barrier::wait(Tile::empty_at(ring.base, ring.stage), ring.phase ^ 1);
      if (is_elected()) {
        barrier::expect(full, bytes);
        Tile::template fetch<kTileRows, kTurnedA>(a, to, full, k, row, batch_a);
      }
      __syncwarp();
      if (has) fetch_box(b, to + Tile::kBytesA + lane * Tile::kSlabBytes, full, kTurnedB ? column : k, kTurnedB ? k : column, batch_b);
      __syncwarp();
      ring.advance();
    }
  }

  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE void multiply(float* sums, const MappedMatrix& a, const MappedMatrix& b, uint depth, uint3 at,
                                  const ColumnGroups& groups, uint thread, uint warp, const Ring& ring) {
    if (!ring.is_ready) Tile::ready();
    if (warp < Tile::kThreads / 32) {
      Tile::template multiply_all<kTurnedA, kTurnedB>(sums, (depth + 63) / 64, thread, warp, ring);
    } else {
      fetch_all<kTurnedA, kTurnedB>(a.map, b.map, a.batches > 1 ? at.x : 0, b.batches > 1 ? at.x : 0, depth, at.y, groups, ring);
      Tile::forget(sums);
    }
  }
  static TSL_INLINE void multiply(float* sums, const MappedMatrix& a, const MappedMatrix& b, uint depth, uint3 at,
                                  const ColumnGroups& groups, uint thread, uint warp, Ring& ring) {
    if (a.contiguous == 0) {
      if (b.contiguous == 1) multiply<true, true>(sums, a, b, depth, at, groups, thread, warp, ring);
      else multiply<true, false>(sums, a, b, depth, at, groups, thread, warp, ring);
    } else {
      if (b.contiguous == 1) multiply<false, true>(sums, a, b, depth, at, groups, thread, warp, ring);
      else multiply<false, false>(sums, a, b, depth, at, groups, thread, warp, ring);
    }
    ring.skip((depth + 63) / 64);
  }

  // Stores the blocks that there are: number numbers[r, k] of c is that of the rows r and the columns k of blocks, -1 that there is
  // none. Outside of `rows` and `columns` they have zeros. A warp has 16 rows, so those of one row of blocks.
  static TSL_INLINE void store(float* sums, const View& numbers, const ColumnGroups& groups, const View& c, uint base,
                               uint row, uint rows, uint columns, uint thread) {
    constexpr int kPiece = 16, kElements = kPiece / 2;  // columns, of which a thread has so many elements
    constexpr int kPieces = kGroup / kPiece;            // of a group
    const uint height = c.sizes[1], width = c.sizes[2], mine = row + Tile::row(thread, 0) / 16 * 16, line = mine / height;
    if (line >= numbers.sizes[0]) return;
    // Four threads exchange their elements, so that each stores 8 columns of a row: where, seen from a piece's corner.
    const uint quarter = thread % 4, own_row = row + Tile::row(thread, 0) + quarter % 2 * 8 - line * height;
    T* const own = reinterpret_cast<T*>(c.data) + own_row * width + quarter / 2 * 8;
    const longlong size = longlong(height * width);
    // Loads from memory take long: they are issued a group ahead.
    uint lefts[kGroups];
    int found[2][kPieces];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) lefts[g] = uint(g) < groups.size() ? groups[g] * kGroup : numbers.sizes[1] * width;
    const auto find = [&](int g) {
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const uint k = (lefts[g] + p * kPiece) / width;
        found[g % 2][p] = k < numbers.sizes[1] ? numbers.load<int>(line, k) : -1;
      }
    };
    find(0);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g + 1 < kGroups) find(g + 1);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const int number = found[g % 2][p];
        if (number < 0) continue;
        const uint left = lefts[g] + p * kPiece;
        float* part = sums + (g * kPieces + p) * kElements;
        // Where an operand has zeros, the other one may be infinite.
        if (mine + 16 > rows || left + kPiece > columns) {
#pragma unroll
          for (int i = 0; i < kElements; ++i) {
            if (row + Tile::row(thread, i) >= rows || left + Tile::column(thread, i) >= columns) part[i] = 0;
          }
        }
        const uint4 words = exchanged<T>(part, quarter);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(own + longlong(base + uint(number)) * size + left % width),
                     "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                     : "memory");
      }
    }
  }
};

}  // namespace tsl

#endif
