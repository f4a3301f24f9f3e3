// Blocks that make tiles of matrix products: what the Slang module torch_slang.mma stands on (slang/mma.slang).
//
// Note [matrix kernels]
//   256 threads make a tile of the result together, each has some of its elements in registers. Which ones, and how they
//   are multiplied, is one of four ways to do it, chosen when the kernel is compiled:
//     WarpgroupProduct  half, bfloat16 on Hopper (mma_wgmma.h)
//     SyncProduct       half, bfloat16, and float as TF32, on other GPUs from Ampere on (mma_sync.h)
//     SimtProduct       all else on GPUs (mma_simt.h)
//     HostProduct       (mma_host.h)
//   The launch has a block for each tile. On a GPU as many hardware blocks run as the device holds at once, and each does
//   one tile after the other, so that what is fetched ahead crosses from tile to tile. On Hopper there is a warp more than
//   the launch has, which fetches; its threads run the kernel too, but have no elements.
//   What the launcher must know stands in the compiled code as marks: `block 288`, threads; `shared 230400`, bytes of
//   dynamic shared memory; `map 0 1 128 2`: the tensor map of view 0, whose dimension 1 (of the last two) runs along K,
//   for tiles 128 wide of elements of 2 bytes; `tile 128256`: 128 x 256, of which there may be one, since what is fetched
//   ahead lies where that says.
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

#include "prelude/block_size.h"
#include "prelude/mma_matrix.h"
#include "prelude/mma_steps.h"
#include "prelude/mma_host.h"
#include "prelude/mma_simt.h"
#include "prelude/mma_sync.h"
#include "prelude/mma_wgmma.h"

#ifdef TSL_BLOCK
namespace tsl {
constexpr uint kLaunchBlock[] = {TSL_BLOCK};
static_assert(kLaunchBlock[0] == 256 && kLaunchBlock[1] == 1 && kLaunchBlock[2] == 1,
              "a kernel that multiplies matrices needs [BlockSize(256, 1, 1)]");
}  // namespace tsl
#endif

namespace tsl {

// How precisely float operands are multiplied.
enum { kFullPrecision = 1, kTf32 = 2 };

template <class T, size_t kPrecision, size_t kRows, size_t kColumns> struct ProductOf {
  static constexpr bool kIsHalf = IsSame<T, __half>::value || IsSame<T, __nv_bfloat16>::value;
  static constexpr bool kUsesMap = TSL_WGMMA && kIsHalf;
#if !TSL_CUDA
  using type = HostProduct<T, int(kRows), int(kColumns)>;
#else
  static constexpr bool kIsTf32 = IsSame<T, float>::value && kPrecision == kTf32;
  static constexpr bool kHasTensorCores = __CUDA_ARCH__ >= 800 && (kIsHalf || kIsTf32);
  using Other = typename Choose<kHasTensorCores, SyncProduct<T, int(kRows), int(kColumns), kPrecision == kTf32>,
                                SimtProduct<T, int(kRows), int(kColumns)>>::type;
#if TSL_WGMMA
  using type = typename Choose<kUsesMap, WarpgroupProduct<T, int(kRows), int(kColumns)>, Other>::type;
#else
  using type = Other;
#endif
#endif
};

// The last two dimensions of a view of matrices, or of one.
template <class T> TSL_INLINE Matrix<T> matrix_of(const TensorView& view, uint batch) {
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
template <int kAxis, int kExtent, int kBytes, int kView = 0> TSL_INLINE void mark_map(int view) {
  if constexpr (kView < TSL_VIEW_COUNT) {
    if (view == kView) {
      asm volatile(TSL_MARK_ASM("map %0 %1 %2 %3") ::"n"(kView), "n"(kAxis), "n"(kExtent), "n"(kBytes));
    } else {
      mark_map<kAxis, kExtent, kBytes, kView + 1>(view);
    }
  }
}
#endif

// The share of a block's threads in rows that are laid out among them one after the other.
template <size_t kRows, size_t kColumns> struct PartOfTile {
  static constexpr int kCount = int(kRows * kColumns / 256);
  static_assert(kCount > 0 && kColumns % kCount == 0, "a thread's share is a piece of a row");

  static TSL_INLINE uint row(uint thread, int) { return thread * kCount / uint(kColumns); }
  static TSL_INLINE uint column(uint thread, int i) { return thread * kCount % uint(kColumns) + i; }

  // In words where those lie in c whole.
  template <class Sum, class Out>
  static TSL_INLINE void store(const Sum* values, Matrix<Out> c, uint first_row, uint first_column, uint thread) {
    const uint at_row = first_row + row(thread, 0), at_column = first_column + column(thread, 0);
    if (at_row >= c.rows) return;
    Out* to = c.data + longlong(at_row) * c.row_stride + longlong(at_column) * c.column_stride;
#if TSL_CUDA
    constexpr uint kBytes = word_bytes(kCount * int(sizeof(Out))), kWord = kBytes / uint(sizeof(Out));
    const bool is_whole = c.column_stride == 1 && at_column + kCount <= c.columns;
    if (is_whole && (reinterpret_cast<ulonglong>(to) & (kBytes - 1)) == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += int(kWord)) {
        FixedArray<Out, kWord> word;
#pragma unroll
        for (uint k = 0; k < kWord; ++k) word[k] = Out(values[i + k]);
        put_word(to + i, word);
      }
      return;
    }
#endif
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (at_column + i < c.columns) to[i * c.column_stride] = Out(values[i]);
    }
  }

 private:
  template <class Out, size_t kWord> static TSL_INLINE void put_word(Out* to, FixedArray<Out, kWord> word) {
    constexpr size_t kBytes = kWord * sizeof(Out);
    using Word = typename WordOf<int(kBytes)>::type;
    *reinterpret_cast<Word*>(to) = slang_bit_cast<Word>(word);
  }
};

// What a block keeps from tile to tile.
struct TileBlock {
  uint thread;  // in the hardware block
#if TSL_CUDA
  unsigned char* shared;
#endif
#if TSL_WGMMA
  uint base, stage = 0, phase = 0;
  bool has_begun = false;  // its barriers are ready
#endif
};

template <class Own>
struct MatrixKernel : KernelBase<Own> {
  TileBlock& block;
  uint products = 0;  // that this thread has come to, in this tile

  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns>
  using Shape = FixedArray<FixedArray<FixedArray<FixedArray<T, kColumns>, kRows>, kParts>, kPrecision>;

  template <class Sum, size_t kCount> TSL_INLINE void tsl_clear_sums(FixedArray<Sum, kCount>* sums) const {
#pragma unroll
    for (size_t i = 0; i < kCount; ++i) sums->m_data[i] = Sum(0);
  }
  TSL_INLINE bool tsl_has_tile() const { return block.thread < 256; }

  // Where the thread's element number i is in the tile.
  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns>
  TSL_INLINE uint tsl_tile_row(Shape<T, kPrecision, kParts, kRows, kColumns>*, int i) const {
    if constexpr (kParts == 1) return ProductOf<T, kPrecision, kRows, kColumns>::type::row(block.thread, i);
    else return part<kParts>() * (kRows / kParts) + PartOfTile<kRows / kParts, kColumns>::row(block.thread, i);
  }
  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns>
  TSL_INLINE uint tsl_tile_column(Shape<T, kPrecision, kParts, kRows, kColumns>*, int i) const {
    if constexpr (kParts == 1) return ProductOf<T, kPrecision, kRows, kColumns>::type::column(block.thread, i);
    else return PartOfTile<kRows / kParts, kColumns>::column(block.thread, i);
  }

  // `at`: the tile's batch, first row and first column.
  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply(Shape<T, kPrecision, kParts, kRows, kColumns>*, FixedArray<Sum, kCount>* sums,
                               TensorView a, TensorView b, uint3 at) {
    if constexpr (kParts == 1) {
      multiply<T, kPrecision, kRows, kColumns>(sums->m_data, a, b, at, 0, 1);
    } else {
      multiply_together<T, kPrecision, kParts, kRows, kColumns>(sums->m_data, a, b, at);
    }
  }

  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_tile(Shape<T, kPrecision, kParts, kRows, kColumns>*, const FixedArray<Sum, kCount>* values,
                                 Out*, TensorView c, uint3 at) {
    if (c.readonly) mark_write(c.id);
    if (!tsl_has_tile()) return;
#if TSL_CUDA
    __syncwarp();  // what was done to elements before may have gone other ways for other lanes
#endif
    const Matrix<Out> to = matrix_of<Out>(c, at.x);
    if constexpr (kParts > 1) {
      using Part = PartOfTile<kRows / kParts, kColumns>;
      Part::store(values->m_data, to, at.y + part<kParts>() * uint(kRows / kParts), at.z, block.thread);
    } else {
      store<ProductOf<T, kPrecision, kRows, kColumns>, T>(values->m_data, c, to, at);
    }
  }

 private:
  template <size_t kParts> TSL_INLINE uint part() const { return this->blockIdx.x % uint(kParts); }

  template <class T, size_t kPrecision, size_t kRows, size_t kColumns, class Sum>
  TSL_INLINE void multiply(Sum* sums, TensorView a, TensorView b, uint3 at, uint part, uint parts) {
    using Way = ProductOf<T, kPrecision, kRows, kColumns>;
    using Product = typename Way::type;
    Matrix<const T> left = matrix_of<const T>(a, at.x), right = matrix_of<const T>(b, at.x);
    const Steps steps = steps_of(left.columns, part, parts);
#if !TSL_CUDA
    Product::multiply(sums, left, right, at, block.thread, products++);
#else
    TSL_MARK_NUMBER("shared", Product::kSharedBytes);
    TSL_MARK_NUMBER("tile", kRows * 1000 + kColumns);
    if constexpr (Way::kUsesMap) {
#if TSL_WGMMA
      mark_map<1, kRows, sizeof(T)>(a.id);
      mark_map<0, kColumns, sizeof(T)>(b.id);
      if (this->args.maps_hold) {
        const TslMatrixMap &map_a = this->args.maps[a.id], &map_b = this->args.maps[b.id];
        if (!block.has_begun) Product::begin(block.base, block.thread, map_a, map_b);
        block.has_begun = true;
        typename Product::Ring ring{block.base, block.stage, block.phase};
        Product::multiply(sums, map_a, map_b, steps, at, block.thread, ring);
        block.stage = ring.stage;
        block.phase = ring.phase;
      } else {
        cut(left, right, steps);
        Product::multiply_copies(sums, left, right, at, block.thread, block.shared, block.base);
      }
#endif
    } else if (tsl_has_tile()) {
      cut(left, right, steps);
      Product::multiply(*reinterpret_cast<Sum(*)[Product::kCount]>(sums), left, right, at.y, at.z, block.shared,
                        block.thread);
    }
#endif
  }

  // Note [clusters]
  //   Where there are few tiles, each is made by kParts blocks that follow each other. Block p multiplies its part of K;
  //   what they have they put into shared memory, which the blocks of a cluster read of one another, and each adds up its
  //   kRows / kParts rows, always in the same order. A thread then has a piece of a row (PartOfTile). Where there are no
  //   clusters, before Hopper, a block multiplies all of K and keeps its part; on the host it multiplies its rows alone.
  template <class T, size_t kPrecision, size_t kParts, size_t kRows, size_t kColumns, class Sum>
  TSL_INLINE void multiply_together(Sum* sums, TensorView a, TensorView b, uint3 at) {
#if !TSL_CUDA
    multiply<T, kPrecision, kRows / kParts, kColumns>(
        sums, a, b, uint3{at.x, at.y + part<kParts>() * uint(kRows / kParts), at.z}, 0, 1);
#else
    using Whole = typename ProductOf<T, kPrecision, kRows, kColumns>::type;
    using Part = PartOfTile<kRows / kParts, kColumns>;
    Sum whole[Whole::kCount] = {};
    multiply<T, kPrecision, kRows, kColumns>(whole, a, b, at, TSL_CLUSTERS ? part<kParts>() : 0, TSL_CLUSTERS ? kParts : 1);
    constexpr uint kPitch = kColumns + 8;  // rows apart by eight banks
    TSL_MARK_NUMBER("shared", kRows * kPitch * sizeof(Sum));
    Sum* tile = reinterpret_cast<Sum*>(block.shared);
    if (tsl_has_tile()) meet_in_tile();  // nobody reads operands there any more
    if (tsl_has_tile()) {
#pragma unroll
      for (int i = 0; i < Whole::kCount; ++i) {
        tile[Whole::row(block.thread, i) * kPitch + Whole::column(block.thread, i)] = whole[i];
      }
    }
    const Sum* mine = tile + (part<kParts>() * uint(kRows / kParts) + Part::row(block.thread, 0)) * kPitch +
                      Part::column(block.thread, 0);
#if TSL_CLUSTERS
    TSL_MARK_NUMBER("cluster", kParts);
    meet_in_cluster();
    if (tsl_has_tile()) {
#pragma unroll
      for (uint p = 0; p < kParts; ++p) add_of_block<Part::kCount>(sums, p, mine);
    }
    meet_in_cluster();  // shared memory stays until it was read
#else
    if (tsl_has_tile()) meet_in_tile();
    for (int i = 0; i < Part::kCount; ++i) sums[i] += mine[i];
    if (tsl_has_tile()) meet_in_tile();
#endif
#endif
  }

#if TSL_CLUSTERS
  TSL_INLINE void meet_in_cluster() const {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  // Adds what block number `block` of the cluster has where this one has `place`, at a multiple of 16 bytes.
  template <int kCount, class Sum> static TSL_INLINE void add_of_block(Sum* sums, uint block, const Sum* place) {
    static_assert(kCount * sizeof(Sum) % 16 == 0, "a thread's part of a tile is at least 16 bytes");
    uint there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(block));
    constexpr int kWord = 16 / int(sizeof(Sum));
    Sum value[kCount];
#pragma unroll
    for (int i = 0; i < kCount; i += kWord) load_word(value + i, there + uint(i * sizeof(Sum)));
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += value[i];
  }
  static TSL_INLINE void load_word(float* v, uint from) {
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from));
  }
  static TSL_INLINE void load_word(double* v, uint from) {
    asm volatile("ld.shared::cluster.v2.f64 {%0, %1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "r"(from));
  }
#endif

  template <class Way, class T, class Sum, class Out>
  TSL_INLINE void store(const Sum* values, TensorView c, Matrix<Out> to, uint3 at) const {
    using Product = typename Way::type;
#if TSL_WGMMA
    if constexpr (Way::kUsesMap && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      mark_map<kStored, 64, sizeof(T)>(c.id);
      if (this->args.maps[c.id].contiguous == 1) {
        Product::store(values, this->args.maps[c.id], at, block.thread, block.base);
        return;
      }
    }
#endif
#if TSL_CUDA
    if constexpr (!Way::kUsesMap && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      Product::store(*reinterpret_cast<const Sum(*)[Product::kCount]>(values), to, at.y, at.z, block.shared, block.thread);
      return;
    }
#endif
    store_elements<Product>(values, to, at);
  }
  template <class Product, class Sum, class Out>
  TSL_INLINE void store_elements(const Sum* values, Matrix<Out> to, uint3 at) const {
#pragma unroll
    for (int i = 0; i < Product::kCount; ++i) {
      const uint row = at.y + Product::row(block.thread, i), column = at.z + Product::column(block.thread, i);
      if (row < to.rows && column < to.columns) {
        to.data[longlong(row) * to.row_stride + longlong(column) * to.column_stride] = Out(values[i]);
      }
    }
  }
};

TSL_INLINE uint3 block_of_number(ulonglong number, uint3 grid) {
  const ulonglong rows = number / grid.x;
  return {uint(number % grid.x), uint(rows % grid.y), uint(rows / grid.y)};
}

#if TSL_CUDA

constexpr uint kTileThreads = TSL_WGMMA ? 288 : 256;
extern __shared__ __align__(1024) unsigned char tsl_dynamic_shared[];

template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_matrix_tiles(const TslArgs& args) {
  TSL_MARK_NUMBER("block", kTileThreads);
  TileBlock block{threadIdx.x, tsl_dynamic_shared};
#if TSL_WGMMA
  block.base = shared_address(tsl_dynamic_shared);
#endif
  const uint3 grid = grid_size(args);
  const ulonglong count = ulonglong(grid.x) * grid.y * grid.z;
#pragma unroll 1
  for (ulonglong number = blockIdx.x; number < count; number += gridDim.x) {
    ValueSums sums;
    const uint3 thread{block.thread, 0, 0}, index = block_of_number(number, grid);
    Kernel kernel{{{{thread, index, uint3{256, 1, 1}, grid, args}, &sums, 0u}, block}};
    run<Kernel, kEntry>(kernel);
  }
#if TSL_WGMMA
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // stores have read shared memory
#endif
}

#else

template <class Kernel, void (Kernel::*kEntry)()>
TSL_INLINE void run_matrix_block(const TslArgs& args, uint3 index) {
  for (uint t = 0; t < 256; ++t) {
    TileBlock block{t};
    ValueSums sums;
    Kernel kernel{{{{uint3{t, 0, 0}, index, uint3{256, 1, 1}, grid_size(args), args}, &sums, 0u}, block}};
    run<Kernel, kEntry>(kernel);
  }
}

#endif

}  // namespace tsl
