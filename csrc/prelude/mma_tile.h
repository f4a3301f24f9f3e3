// Which way a tile is multiplied, what a block keeps from tile to tile, and what the launcher must know: for Note [matrix kernels] in
// mma.h.
#pragma once

#if TSL_CUDA && TSL_MMA_HALF && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TSL_WGMMA 1
#else
#define TSL_WGMMA 0
#endif
#if TSL_CUDA && __CUDA_ARCH__ >= 900
#define TSL_CLUSTERS 1
#else
#define TSL_CLUSTERS 0
#endif

#include "prelude/mma_cluster.h"
#include "prelude/mma_matrix.h"
#include "prelude/mma_steps.h"
#include "prelude/mma_host.h"
#include "prelude/mma_simt.h"
#include "prelude/mma_sync.h"
#include "prelude/mma_wgmma.h"
#include "prelude/mma_lines.h"
#include "prelude/mma_gather.h"

namespace tsl {

// How precisely float operands are multiplied, as in mma.slang.
enum { kFullPrecision = 1, kTf32 = 2 };

// A tile of kTileRows x kTileColumns that kTileBlocks blocks make. kStages: stages that are fetched ahead, 0 for the default.
// kTileTurns: Note [turns].
template <class T, int kStages, int kTileTurns, int kPrecision, int kTileBlocks, int kTileRows, int kTileColumns> struct TileOf {
  using Element = T;
  static constexpr int kBlocks = kTileBlocks, kRows = kTileRows, kColumns = kTileColumns, kTurns = kTileTurns;
  static constexpr bool kIsHalf = IsSame<T, __half>::value || IsSame<T, __nv_bfloat16>::value;
  static constexpr bool kUsesMap = TSL_WGMMA && kIsHalf;
#if !TSL_CUDA
  using Product = HostProduct<T, kRows / kBlocks, kColumns>;
#else
  static constexpr bool kIsTf32 = IsSame<T, float>::value && kPrecision == kTf32;
  static constexpr bool kHasTensorCores = __CUDA_ARCH__ >= 800 && (kIsHalf || kIsTf32);
  using Other = typename Choose<kHasTensorCores, SyncProduct<T, kRows, kColumns, kPrecision == kTf32>,
                                SimtProduct<T, kRows, kColumns, (kBlocks > 1 ? kRows * kColumns * 4 : 0)>>::type;
#if TSL_WGMMA
  using Product = typename Choose<kUsesMap, WarpgroupProduct<T, kRows, kColumns, (kBlocks > 1), kStages, kTurns>, Other>::type;
#else
  using Product = Other;
#endif
  // The elements that one block has in the end.
  static constexpr int kShare = Product::kCount / kBlocks;
  // Shared memory with what blocks send each other, at the end.
  static constexpr uint kReceived = kRows * kColumns * sizeof(typename Product::Sum);
  static constexpr uint kSharedBytes =
      kUsesMap ? Product::kSharedBytes : (Product::kSharedBytes + 15) / 16 * 16 + kReceived + kBarrierBytes;
#endif
};

// From the type of the array that stands for it in mma.slang.
template <class Shape> struct TileOfShape;
template <class T, size_t kOneMoreStage, size_t kTurnsAndPrecision, size_t kBlocks, size_t kRows, size_t kColumns>
struct TileOfShape<
    FixedArray<FixedArray<FixedArray<FixedArray<FixedArray<T, kColumns>, kRows>, kBlocks>, kTurnsAndPrecision>, kOneMoreStage>> {
  static constexpr int kTurns = int(kTurnsAndPrecision + 1) / 2, kPrecision = int(kTurnsAndPrecision + 1) % 2 + 1;
  using type = TileOf<T, int(kOneMoreStage) - 1, kTurns, kPrecision, int(kBlocks), int(kRows), int(kColumns)>;
};

// Of the array that stands for a tile of lines of blocks.
template <class Shape> struct LinesOfShape;
template <class T, size_t kRows, size_t kLines, size_t kWidth, size_t kDepth, size_t kFetched>
struct LinesOfShape<FixedArray<FixedArray<FixedArray<FixedArray<FixedArray<T, kRows>, kLines>, kWidth>, kDepth>, kFetched>> {
#if TSL_WGMMA
  using type = LinesProduct<T, int(kRows), int(kLines), int(kWidth), int(kDepth), int(kFetched)>;
#else
  static_assert(sizeof(T) == 0, "lines of blocks make a tile of half or bfloat16 on Hopper alone");
#endif
};

// Of the array that stands for a tile of gathered columns.
template <class Shape> struct GatheredOfShape;
template <class T, size_t kRows, size_t kColumns>
struct GatheredOfShape<FixedArray<FixedArray<T, kRows>, kColumns>> {
#if TSL_WGMMA
  using type = GatheredProduct<T, int(kRows), int(kColumns)>;
#else
  static_assert(sizeof(T) == 0, "gathered columns make a tile of half or bfloat16 on Hopper alone");
#endif
};

// The last two dimensions of a view of matrices, or of one.
template <class T> TSL_INLINE Matrix<T> matrix_of(const View& view, uint batch) {
  if (view.dimensionCount != 2 && view.dimensionCount != 3) {
    mark_rank(view.id);  // the run-time refuses the kernel
    return {};
  }
  const uint d = view.dimensionCount - 2;
  unsigned char* data = view.data;
  if (d > 0) data += (view.sizes[0] > 1 ? batch : 0u) * view.strides[0];
  constexpr longlong kBytes = sizeof(T);
  return {reinterpret_cast<T*>(data), view.strides[d] / kBytes, view.strides[d + 1] / kBytes, view.sizes[d],
          view.sizes[d + 1]};
}

#if TSL_CUDA
#define TSL_MARK_NUMBER(word, number) asm volatile(TSL_MARK_ASM(word " %0") ::"n"(int(number)))

enum { kStored = 2 };  // in place of an axis: the view is no operand, and can do without a map
template <int kAxis, int kExtent, int kBytes, int kSteps = 64, int kView = 0> TSL_INLINE void mark_map(int view) {
  if constexpr (kView < TSL_VIEW_COUNT) {
    if (view != kView) {
      mark_map<kAxis, kExtent, kBytes, kSteps, kView + 1>(view);
    } else if constexpr (kSteps == 64) {
      asm volatile(TSL_MARK_ASM("map %0 %1 %2 %3") ::"n"(kView), "n"(kAxis), "n"(kExtent), "n"(kBytes));
    } else {
      asm volatile(TSL_MARK_ASM("map %0 %1 %2 %3 %4") ::"n"(kView), "n"(kAxis), "n"(kExtent), "n"(kBytes), "n"(kSteps));
    }
  }
}
#endif

#if TSL_CUDA
template <class Tile> TSL_INLINE void mark_tile() {
  TSL_MARK_NUMBER("tile", (Tile::kRows * 1000 + Tile::kColumns) * 10 + Tile::kBlocks);
  TSL_MARK_NUMBER("kind", Tile::Product::kSharedBytes * 16 + sizeof(typename Tile::Product::Sum) + Tile::kTurns - 1);
}
#endif

// What a block keeps from tile to tile.
struct TileBlock {
  uint thread;  // in the hardware block
#if TSL_CUDA
  unsigned char* shared;
#endif
#if TSL_WGMMA
  uint warp;  // the thread's, the same for all of it, as the compiler can see
  uint base, stage = 0, phase = 0;
  bool has_begun = false;      // somebody makes its barriers,
  bool is_ready = false;       // and all know that they are there
  uint products = 0;           // so far
#endif
#if TSL_CLUSTERS
  bool is_reached = false;     // by other blocks of its cluster
  uint exchanges = 0;          // with them
#endif
};

// Two neighbours in a row at once.
template <class Out> TSL_INLINE void put_pair(Out* to, Out left, Out right) {
  FixedArray<Out, 2> pair;
  pair[0] = left;
  pair[1] = right;
  using Word = typename WordOf<2 * int(sizeof(Out))>::type;
  *reinterpret_cast<Word*>(to) = slang_bit_cast<Word>(pair);
}

}  // namespace tsl
