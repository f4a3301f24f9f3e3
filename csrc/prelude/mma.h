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
//   for tiles 128 wide of elements of 2 bytes.
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
  static constexpr bool kHasTensorCores = __CUDA_ARCH__ >= 800 && (kIsHalf || (IsSame<T, float>::value && kPrecision == kTf32));
#if TSL_WGMMA
  using Hopper = WarpgroupProduct<T, int(kRows), int(kColumns)>;
#else
  using Hopper = SyncProduct<T, int(kRows), int(kColumns), kPrecision == kTf32>;
#endif
  using Other = typename Choose<kHasTensorCores, SyncProduct<T, int(kRows), int(kColumns), kPrecision == kTf32>,
                                SimtProduct<T, int(kRows), int(kColumns)>>::type;
  using type = typename Choose<kUsesMap, Hopper, Other>::type;
#endif
};

// The last two dimensions of a view of matrices, or of one.
template <class T> TSL_INLINE Matrix<T> matrix_of(const TensorView& view, uint batch) {
  const uint d = view.dimensionCount - 2;
  unsigned char* data = view.data;
  if (d > 0) data += (view.sizes[0] > 1 ? batch : 0u) * view.strides[0];
  constexpr longlong kBytes = sizeof(T);
  return {reinterpret_cast<T*>(data), view.strides[d] / kBytes, view.strides[d + 1] / kBytes, view.sizes[d], view.sizes[d + 1]};
}

#if TSL_CUDA
#define TSL_MARK_NUMBER(word, number) asm volatile(TSL_MARK_ASM(word " %0") ::"n"(int(number)))

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

  template <class T, size_t kPrecision, size_t kRows, size_t kColumns>
  using Shape = FixedArray<FixedArray<FixedArray<T, kColumns>, kRows>, kPrecision>;

  template <class Sum, size_t kCount> TSL_INLINE void tsl_clear_sums(FixedArray<Sum, kCount>* sums) const {
#pragma unroll
    for (size_t i = 0; i < kCount; ++i) sums->m_data[i] = Sum(0);
  }
  TSL_INLINE bool tsl_has_tile() const { return block.thread < 256; }

  template <class T, size_t kPrecision, size_t kRows, size_t kColumns>
  TSL_INLINE uint tsl_tile_row(Shape<T, kPrecision, kRows, kColumns>*, int i) const {
    return ProductOf<T, kPrecision, kRows, kColumns>::type::row(block.thread, i);
  }
  template <class T, size_t kPrecision, size_t kRows, size_t kColumns>
  TSL_INLINE uint tsl_tile_column(Shape<T, kPrecision, kRows, kColumns>*, int i) const {
    return ProductOf<T, kPrecision, kRows, kColumns>::type::column(block.thread, i);
  }

  // `at`: the tile's batch, first row and first column.
  template <class T, size_t kPrecision, size_t kRows, size_t kColumns, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply(Shape<T, kPrecision, kRows, kColumns>*, FixedArray<Sum, kCount>* sums, TensorView a,
                               TensorView b, uint3 at) {
    multiply<T, kPrecision, kRows, kColumns>(sums->m_data, a, b, at, 0, 1);
  }

  // Note [clusters]
  //   Where there are few tiles, each is made by kParts blocks that follow each other: block p multiplies its part of K. What
  //   they have they add up in shared memory, which the blocks of a cluster read of one another, and each keeps the sums of
  //   its kColumns of the kParts * kColumns columns. The order of the additions is always the same. Where there are no
  //   clusters (before Hopper, on the host), a block makes its columns by itself.
  template <class T, size_t kPrecision, size_t kRows, size_t kColumns, class Sum, size_t kCount, size_t kParts>
  TSL_INLINE void tsl_multiply_together(Shape<T, kPrecision, kRows, kColumns>*, FixedArray<T, kParts>*,
                                        FixedArray<Sum, kCount>* sums, TensorView a, TensorView b, uint3* at) {
    const uint part = this->blockIdx.x % uint(kParts), first = at->z;
    at->z += part * kColumns;
    if constexpr (kParts == 1 || !TSL_CLUSTERS) {
      multiply<T, kPrecision, kRows, kColumns>(sums->m_data, a, b, *at, 0, 1);
    } else {
#if TSL_CLUSTERS
      TSL_MARK_NUMBER("cluster", kParts);
      using Whole = typename ProductOf<T, kPrecision, kRows, kParts * kColumns>::type;
      using Mine = typename ProductOf<T, kPrecision, kRows, kColumns>::type;
      Sum whole[kParts * kCount] = {};
      multiply<T, kPrecision, kRows, kParts * kColumns>(whole, a, b, uint3{at->x, at->y, first}, part, kParts);
      constexpr uint kPitch = kParts * kColumns + 8;  // in shared memory; rows apart by eight banks
      TSL_MARK_NUMBER("shared", kRows * kPitch * sizeof(Sum));
      Sum* tile = reinterpret_cast<Sum*>(block.shared);
      meet_in_block();  // nobody reads operands there any more
      if (tsl_has_tile()) {
#pragma unroll
        for (int i = 0; i < int(kParts * kCount); ++i) {
          tile[Whole::row(block.thread, i) * kPitch + Whole::column(block.thread, i)] = whole[i];
        }
      }
      meet_in_cluster();
      if (tsl_has_tile()) {
#pragma unroll
        for (int i = 0; i < int(kCount); ++i) {
          const uint place = Mine::row(block.thread, i) * kPitch + part * kColumns + Mine::column(block.thread, i);
#pragma unroll
          for (uint p = 0; p < kParts; ++p) sums->m_data[i] += of_block(p, tile + place);
        }
      }
      meet_in_cluster();  // shared memory stays until it was read
#endif
    }
  }

  template <class T, size_t kPrecision, size_t kRows, size_t kColumns, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_tile(Shape<T, kPrecision, kRows, kColumns>*, const FixedArray<Sum, kCount>* values, Out*,
                                 TensorView c, uint3 at) {
    using Way = ProductOf<T, kPrecision, kRows, kColumns>;
    using Product = typename Way::type;
    if (c.readonly) mark_write(c.id);
    if (!tsl_has_tile()) return;
    const Matrix<Out> to = matrix_of<Out>(c, at.x);
#if TSL_WGMMA
    if constexpr (Way::kUsesMap && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      mark_map<1, 64, sizeof(T)>(c.id);
      if (this->args.maps[c.id].contiguous == 1) {
        Product::store(values->m_data, this->args.maps[c.id], at, block.thread, block.base);
        return;
      }
    }
#endif
#if TSL_CUDA
    if constexpr (!Way::kUsesMap && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      Product::store(values->m_data, to, at.y, at.z, block.shared, block.thread);
      return;
    }
#endif
    store_elements<Product>(values->m_data, to, at);
  }

 private:
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
      Product::multiply(*reinterpret_cast<Sum(*)[Product::kCount]>(sums), left, right, at.y, at.z, block.shared, block.thread);
    }
#endif
  }

#if TSL_CLUSTERS
  TSL_INLINE void meet_in_block() const {
    if (tsl_has_tile()) asm volatile("bar.sync 8, 256;" ::: "memory");
  }
  TSL_INLINE void meet_in_cluster() const {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  // What block number `block` of the cluster has where we have `place`.
  static TSL_INLINE float of_block(uint block, const float* place) {
    float value;
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}"
        : "=f"(value) : "r"(shared_address(place)), "r"(block) : "memory");
    return value;
  }
  static TSL_INLINE double of_block(uint block, const double* place) {
    double value;
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f64 %0, [there];\n}"
        : "=d"(value) : "r"(shared_address(place)), "r"(block) : "memory");
    return value;
  }
#endif

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
    Kernel kernel{{{{uint3{block.thread, 0, 0}, block_of_number(number, grid), uint3{256, 1, 1}, grid, args}, &sums, 0u}, block}};
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
