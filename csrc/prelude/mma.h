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
//   one tile after the other, so that stages fetched ahead cross from tile to tile. On Hopper there is a warp more than
//   the launch has, which fetches; its threads run the kernel too, but have no elements: their values are undefined.
//   What the launcher must know stands in the compiled code as marks: `block 288`, threads; `shared 230400`, bytes of
//   dynamic shared memory; `map 0 1 128 2`: the tensor map of view 0, whose dimension 1 (of the last two) runs along K,
//   for tiles 128 wide of elements of 2 bytes (and 32 steps at a time, if a fifth number says so, not 64); `cluster 2`: blocks
//   that make a tile together; `tile 1282562`: 128 x 256 by two of them, and `kind 3686404`: the layout of shared memory.
//   Of both there may be one, since data fetched ahead or sent arrives while others still read.
#pragma once

#include "prelude/mma_launch.h"
#include "prelude/mma_tile.h"

namespace tsl {

template <class Own> struct MatrixKernel : KernelBase<Own> {
  TileBlock& block;
  uint products = 0;  // that this thread has come to, in this tile

  template <class Shape, class Sum, size_t kCount> TSL_INLINE void tsl_clear_sums(Shape*, FixedArray<Sum, kCount>* sums) {
#pragma unroll
    for (size_t i = 0; i < kCount; ++i) sums->m_data[i] = Sum(0);
    begin<typename TileOfShape<Shape>::type>();
  }
  TSL_INLINE bool tsl_has_tile() const {
#if TSL_WGMMA
    return block.warp < 8;
#else
    return true;
#endif
  }

  // Where the thread's element number i is in the tile.
  template <class Shape> TSL_INLINE uint tsl_tile_row(Shape*, int i) const {
    using Tile = typename TileOfShape<Shape>::type;
    return first_row<Tile>() + Tile::Product::row(block.thread, first_element<Tile>() + i);
  }
  template <class Shape> TSL_INLINE uint tsl_tile_column(Shape*, int i) const {
    using Tile = typename TileOfShape<Shape>::type;
    return Tile::Product::column(block.thread, first_element<Tile>() + i);
  }

  // `at`: the tile's batch, first row and first column.
  template <class Shape, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply(Shape*, FixedArray<Sum, kCount>* sums, View a, View b, uint3 at) {
    using Tile = typename TileOfShape<Shape>::type;
    at.y += first_row<Tile>();
    if constexpr (TSL_CUDA && Tile::kBlocks > 1) multiply_together<Tile>(sums->m_data, a, b, at);
    else multiply<Tile>(sums->m_data, a, b, at, 0, 1);
  }

  // tsl_multiply for the first `rows` and `columns` of the tile alone. The sums of its other elements are undefined.
  template <class Shape, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply_part(Shape*, FixedArray<Sum, kCount>* sums, View a, View b, uint3 at, uint rows,
                                    uint columns) {
    using Tile = typename TileOfShape<Shape>::type;
    static_assert(Tile::kBlocks == 1, "a tile that several blocks make together is multiplied whole");
    multiply<Tile, true>(sums->m_data, a, b, at, 0, 1, rows, columns);
  }

  // Rows of a times blocks that are one below the other, whose columns from at.z on are the tile's.
  template <class Shape, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply_blocks(Shape*, FixedArray<Sum, kCount>* sums, View a, View blocks, uint3 at,
                                      View offsets, View depths, View places, uint line, uint base) {
    using Tile = typename TileOfShape<Shape>::type;
    static_assert(Tile::kBlocks == 1, "a tile that several blocks make together multiplies no lists of blocks");
    multiply_blocks<Tile>(sums->m_data, a, blocks, at, BlockList{offsets, depths, places, line, base});
  }

  // `columns`: so many of the tile's columns, at most, are stored.
  template <class Shape, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_columns(Shape*, const FixedArray<Sum, kCount>* values, Out*, View c, uint3 at,
                                    uint columns) {
    using Tile = typename TileOfShape<Shape>::type;
    if (c.readonly) mark_write(c.id);
    if (!tsl_has_tile()) return;
#if TSL_CUDA
    __syncwarp();  // lanes may have taken different branches for elements before
    block.thread = hidden(block.thread);  // else the compiler moves the computations below to the kernel's beginning
#endif
    at.y += first_row<Tile>();
    Matrix<Out> to = matrix_of<Out>(c, at.x);
    if (columns >= uint(Tile::kColumns)) {
      store<Tile>(values->m_data, c, to, at);
      return;
    }
    to.columns = least(to.columns, at.z + columns);
    store_elements<Tile>(values->m_data, to, at);
  }

  template <class Shape, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_tile(Shape* shape, const FixedArray<Sum, kCount>* values, Out* type, View c, uint3 at) {
    tsl_store_columns(shape, values, type, c, at, TileOfShape<Shape>::type::kColumns);
  }

#if TSL_WGMMA
  // Rows of a, from at.y on, times each of the lines: Note [lines].
  template <class Shape, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply_lines(Shape*, FixedArray<Sum, kCount>* sums, View a, View blocks, uint3 at,
                                     View offsets, View order, View depths, View places, uint first,
                                     uint end, uint base) {
    using Product = typename LinesOfShape<Shape>::type;
    TSL_MARK_NUMBER("shared", Product::kSharedBytes);
    mark_map<1, Product::kRowsOfBox, 2>(a.id);
    mark_map<0, Product::kColumnsOfBox, 2, Product::kSteps>(blocks.id);
    const BlockLines lines{offsets, order, depths, places, first, end, base};
    if (!block.is_ready) Product::begin(block.base, block.warp);
    block.is_ready = true;
    typename Product::Ring ring{block.base, block.stage, block.phase};
    const MappedMatrix of_a = mapped(this->args, a.id), of_blocks = mapped(this->args, blocks.id);
    if (!this->args.maps_hold || of_a.contiguous != 1) __trap();  // the host sees to it
    if (of_blocks.contiguous == 1) {
      Product::template multiply<true>(sums->m_data, of_a, of_blocks, lines, at, block.thread, block.warp, ring);
    } else {
      Product::template multiply<false>(sums->m_data, of_a, of_blocks, lines, at, block.thread, block.warp, ring);
    }
    block.stage = ring.stage;
    block.phase = ring.phase;
  }
  template <class Shape> TSL_INLINE uint tsl_lines_row(Shape*, int i) const {
    return LinesOfShape<Shape>::type::row(block.thread, i);
  }
  template <class Shape> TSL_INLINE uint tsl_lines_column(Shape*, int i) const {
    return LinesOfShape<Shape>::type::column(block.thread, i);
  }
  // Line number k of `order`, from `first` on, has the columns of c from order[k] * width on.
  template <class Shape, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_lines(Shape*, const FixedArray<Sum, kCount>* values, Out*, View c, uint3 at,
                                  View order, uint first, uint end) {
    using Product = typename LinesOfShape<Shape>::type;
    if (c.readonly) mark_write(c.id);
    if (!tsl_has_tile()) return;
    __syncwarp();
    block.thread = hidden(block.thread);
    mark_map<kStored, Product::kInner, 2>(c.id);
    const MappedMatrix of_c = mapped(this->args, c.id);
    if (of_c.contiguous == 1) {
      Product::store(values->m_data, of_c, at, order, first, end, block.thread, block.warp, block.base);
    } else {
      Product::store_elements(values->m_data, matrix_of<Out>(c, at.x), at, order, first, end, block.thread);
    }
  }

  // Rows of a, from at.y on, times groups of columns of b: Note [gathered columns].
  template <class Shape, class Sum, size_t kCount>
  TSL_INLINE void tsl_multiply_gathered(Shape*, FixedArray<Sum, kCount>* sums, View a, View b, uint3 at,
                                        View columns, uint first, uint end) {
    using Product = typename GatheredOfShape<Shape>::type;
    TSL_MARK_NUMBER("shared", Product::kSharedBytes);
    mark_map<1, Product::kRowsOfBox, 2>(a.id);
    mark_map<0, Product::kColumnsOfBox, 2>(b.id);
    if (!block.has_begun) Product::begin(block.base, block.warp);
    block.has_begun = true;
    typename Product::Ring ring{block.base, block.stage, block.phase, block.is_ready};
    const MappedMatrix of_a = mapped(this->args, a.id), of_b = mapped(this->args, b.id);
    if (!this->args.maps_hold) __trap();  // the host sees to it
    Product::multiply(sums->m_data, of_a, of_b, a.sizes[2], at, ColumnGroups{columns, first, end}, block.thread, block.warp, ring);
    block.is_ready = true;
    block.stage = ring.stage;
    block.phase = ring.phase;
  }
  template <class Shape, class Sum, size_t kCount, class Out>
  TSL_INLINE void tsl_store_gathered(Shape*, FixedArray<Sum, kCount>* values, Out*, View c, uint base, View numbers,
                                     View columns, uint first, uint end, uint row, uint rows, uint all_columns) {
    if (c.readonly) mark_write(c.id);
    if (!tsl_has_tile()) return;
    __syncwarp();
    block.thread = hidden(block.thread);
    GatheredOfShape<Shape>::type::store(values->m_data, numbers, ColumnGroups{columns, first, end}, c, base, row, rows, all_columns,
                                        block.thread);
  }
#endif

 private:
  // This block's number among those that make the tile. On the host they share out its rows, else its elements.
  template <class Tile> TSL_INLINE uint part() const { return this->blockIdx.x % uint(Tile::kBlocks); }
  template <class Tile> TSL_INLINE uint first_row() const {
    return TSL_CUDA ? 0u : part<Tile>() * uint(Tile::kRows / Tile::kBlocks);
  }
  template <class Tile> TSL_INLINE int first_element() const {
#if TSL_CUDA
    return int(part<Tile>()) * Tile::kShare;
#else
    return 0;
#endif
  }

  template <class Tile> TSL_INLINE void begin() {
#if TSL_WGMMA
    if constexpr (Tile::kUsesMap) {
      mark_tile<Tile>();  // stores go by it too
      if (!block.has_begun && this->args.maps_hold) Tile::Product::begin(block.base, block.warp);
      block.has_begun = true;
    }
#endif
  }

#if TSL_WGMMA
  // `use(ring)`: a product whose stages go on where those of the one before ended.
  template <class Tile, class Use> TSL_INLINE void with_ring(const Use& use) {
    begin<Tile>();
    typename Tile::Product::Ring ring{block.base, block.stage, block.phase, block.is_ready, block.products};
    use(ring);
    block.is_ready = true;
    block.products = ring.products;
    block.stage = ring.stage;
    block.phase = ring.phase;
  }
#endif

  template <class Tile, bool kIsPart = false, class Sum>
  TSL_INLINE void multiply(Sum* sums, View a, View b, uint3 at, uint part_of_depth, uint parts, uint rows = 0,
                           uint columns = 0) {
    using T = typename Tile::Element;
    using Product = typename Tile::Product;
    Matrix<const T> left = matrix_of<const T>(a, at.x), right = matrix_of<const T>(b, at.x);
    if constexpr (kIsPart) {
      left.rows = least(left.rows, at.y + rows);
      right.columns = least(right.columns, at.z + columns);
    }
    const Steps steps = steps_of(left.columns, part_of_depth, parts);
#if !TSL_CUDA
    Product::multiply(sums, at.y, left.rows, block.thread, products++,
                      [&](auto& tile, Sum* product) { tile.add_product(product, left, right, at.y, at.z); });
#else
    TSL_MARK_NUMBER("shared", Product::kSharedBytes);
    mark_tile<Tile>();
    if constexpr (Tile::kUsesMap) {
#if TSL_WGMMA
      mark_map<1, Product::kStageRows, sizeof(T)>(a.id);
      mark_map<0, Product::kStageColumns, sizeof(T)>(b.id);
      if (this->args.maps_hold) {
        with_ring<Tile>([&](auto& ring) {
          Product::multiply(sums, mapped(this->args, a.id), mapped(this->args, b.id), steps, at, block.thread,
                            block.warp, ring);
        });
      } else {
        cut(left, right, steps);
        Product::multiply_copies(sums, left, right, at, block.thread, block.warp, block.shared, block.base);
      }
#endif
    } else if (tsl_has_tile()) {
      cut(left, right, steps);
      Product::multiply(*reinterpret_cast<Sum(*)[Product::kCount]>(sums), left, right, at.y, at.z, block.shared,
                        block.thread);
    }
#endif
  }

  template <class Tile, class Sum>
  TSL_INLINE void multiply_blocks(Sum* sums, View a, View blocks, uint3 at, const BlockList& list) {
    using T = typename Tile::Element;
    using Product = typename Tile::Product;
    const Matrix<const T> rows = matrix_of<const T>(a, at.x), blocks_0 = matrix_of<const T>(blocks, 0);
    const longlong apart = blocks.strides[0] / longlong(sizeof(T));
    const auto each = [&](const auto& multiply_one) {
      const uint end = list.end();
#pragma unroll 1
      for (uint i = list.first(); i < end; ++i) {
        Matrix<const T> left = rows, right = blocks_0;
        right.data += list.matrix(i) * apart;
        cut(left, right, list.depth(i));
        multiply_one(left, right);
      }
    };
#if !TSL_CUDA
    Product::multiply(sums, at.y, rows.rows, block.thread, products++,
                      [&](auto& tile, Sum* product) {
                        each([&](const auto& left, const auto& right) { tile.add_product(product, left, right, at.y, at.z); });
                      });
#else
    TSL_MARK_NUMBER("shared", Product::kSharedBytes);
    mark_tile<Tile>();
    if constexpr (Tile::kUsesMap) {
#if TSL_WGMMA
      TSL_MARK_NUMBER("shared", Product::kSharedBytesOfList);
      mark_map<1, Product::kStageRows, sizeof(T)>(a.id);
      mark_map<0, Product::kStageColumns, sizeof(T)>(blocks.id);
      const uint depth = blocks.sizes[blocks.dimensionCount - 2];
      if (this->args.maps_hold && depth % 64 == 0) {
        with_ring<Tile>([&](auto& ring) {
          Product::multiply_list(sums, mapped(this->args, a.id), mapped(this->args, blocks.id), list, depth / 64, at,
                                 block.thread, block.warp, ring);
        });
      } else {
        each([&](const auto& left, const auto& right) {
          Product::multiply_copies(sums, left, right, at, block.thread, block.warp, block.shared, block.base);
        });
      }
#endif
    } else if (tsl_has_tile()) {
      if constexpr (Tile::kHasTensorCores) {
        if (Product::takes_list(rows, blocks_0, apart, at.y, at.z)) {
          Product::multiply_list(*reinterpret_cast<Sum(*)[Product::kCount]>(sums), rows, blocks_0, apart, list, at.y, at.z,
                                 block.shared, block.thread);
          return;
        }
      }
      each([&](const auto& left, const auto& right) {
        Product::multiply(*reinterpret_cast<Sum(*)[Product::kCount]>(sums), left, right, at.y, at.z, block.shared,
                          block.thread);
      });
    }
#endif
  }

#if TSL_CUDA
  // Note [clusters]
  //   Where there are few tiles, each is made by kBlocks blocks that follow each other, a cluster on Hopper. Each multiplies
  //   its part of K. Of a thread's elements each block is to have a share: so a thread sends its values of them to the
  //   thread with its number there, and adds the values that it gets; each block in an order of its own, but always the same. Before
  //   Hopper a block multiplies all of K and keeps its share. On the host each multiplies its share of the rows.
  template <class Tile, class Sum>
  TSL_INLINE void multiply_together(Sum* sums, View a, View b, uint3 at) {
    using Whole = typename Tile::Product;
    constexpr int kBlocks = Tile::kBlocks, kShare = Tile::kShare, kNumbers = 16 / int(sizeof(Sum));
    static_assert(kShare % kNumbers == 0, "this tile is too small to be shared out among so many blocks");
    const uint mine = part<Tile>();
    Sum whole[Whole::kCount] = {};
#if TSL_CLUSTERS
    constexpr uint kShareBytes = kShare * sizeof(Sum) * 256, kAllBytes = Tile::kSharedBytes;
    static_assert(kAllBytes <= 227 * 1024, "this tile is too large to be shared out");
    TSL_MARK_NUMBER("shared", kAllBytes);
    TSL_MARK_NUMBER("cluster", kBlocks);
    const unsigned char* received = block.shared + kAllBytes - kBarrierBytes - Tile::kReceived;
    const uint arrived = shared_address(block.shared) + kAllBytes - 8;
    if (block.thread == 0) {
      if (block.exchanges == 0) {
        barrier::init(arrived, 1);
        barrier::publish();
      }
      barrier::expect(arrived, (kBlocks - 1) * kShareBytes);
    }
    __syncwarp();
    cluster::arrive();  // others may send, though this block still multiplies
    multiply<Tile>(whole, a, b, at, mine, kBlocks);
    cluster::wait();
    if (tsl_has_tile()) {
#pragma unroll
      for (uint p = 0; p < kBlocks; ++p) {  // indices that the compiler knows: else all sums would lie in memory
        if (p == mine) continue;
        const uint to = cluster::address_in(shared_address(received + mine * kShareBytes), p) + block.thread * 16;
        const uint there = cluster::address_in(arrived, p);
#pragma unroll
        for (int i = 0; i < kShare; i += kNumbers) cluster::send(to + i * 256 * sizeof(Sum), whole + p * kShare + i, there);
      }
    }
#else
    multiply<Tile>(whole, a, b, at, 0, 1);
#endif
#pragma unroll
    for (uint p = 0; p < kBlocks; ++p) {
#pragma unroll
      for (int i = 0; i < kShare; ++i) sums[i] += p == mine ? whole[p * kShare + i] : Sum(0);
    }
#if TSL_CLUSTERS
    if (tsl_has_tile()) {
      barrier::wait(arrived, block.exchanges & 1);
#pragma unroll
      for (uint p = 1; p < kBlocks; ++p) {
        const unsigned char* from = received + (mine + p) % kBlocks * kShareBytes + block.thread * 16;
#pragma unroll
        for (int i = 0; i < kShare; i += kNumbers) cluster::add<kNumbers>(sums + i, from + i * 256 * sizeof(Sum));
      }
    }
    __syncwarp();
    ++block.exchanges;
    block.is_reached = true;
#endif
  }
#endif

  template <class Tile, class Sum, class Out>
  TSL_INLINE void store(const Sum* values, View c, Matrix<Out> to, uint3 at) const {
    using T = typename Tile::Element;
    using Product = typename Tile::Product;
#if TSL_WGMMA
    if constexpr (Tile::kUsesMap && Tile::kBlocks == 1 && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      mark_map<kStored, 64, sizeof(T)>(c.id);
      const MappedMatrix of_c = mapped(this->args, c.id);
      if (of_c.contiguous == 1 && (!Product::kHasRest || Product::has_vectors(to, at))) {
        Product::store(values, of_c, to, at, block.thread, block.warp, block.base);
        return;
      }
    } else if constexpr (Tile::kUsesMap && Tile::kShare % 8 == 0 && IsSame<Out, T>::value) {
      if (Product::has_vectors(to, at)) {
        store_vectors<Product, Tile::kShare>(values, first_element<Tile>(), to, at, block.thread);
        return;
      }
    }
#endif
#if TSL_CUDA
    if constexpr (!Tile::kUsesMap && Tile::kBlocks == 1 && IsSame<Out, T>::value) {
      TSL_MARK_NUMBER("shared", Product::kSharedBytes);
      Product::store(*reinterpret_cast<const Sum(*)[Product::kCount]>(values), to, at.y, at.z, block.shared, block.thread);
      return;
    }
#endif
    store_elements<Tile>(values, to, at);
  }
  // Elements number 2 n and 2 n + 1 are neighbours in a row.
  template <class Tile, class Sum, class Out>
  TSL_INLINE void store_elements(const Sum* values, Matrix<Out> to, uint3 at) const {
    using Product = typename Tile::Product;
#if TSL_CUDA
    constexpr int kShare = Tile::kShare;
#else
    constexpr int kShare = Product::kCount;  // of one row
    if (at.y + Product::row(block.thread, 0) >= to.rows) return;
#endif
    constexpr bool kHasPairs = TSL_CUDA && (sizeof(Out) == 2 || sizeof(Out) == 4 || sizeof(Out) == 8);
    const int first = first_element<Tile>();
    Out* const corner = to.data + longlong(at.y) * to.row_stride + longlong(at.z) * to.column_stride;
    const ulonglong places = reinterpret_cast<ulonglong>(corner) | ulonglong(to.row_stride * sizeof(Out));
    const bool is_inside = at.y + Tile::kRows <= to.rows && at.z + Tile::kColumns <= to.columns;
    if (kHasPairs && is_inside && to.column_stride == 1 && places % (2 * sizeof(Out)) == 0) {
#pragma unroll
      for (int i = 0; i < kShare; i += 2) {
        const uint row = Product::row(block.thread, first + i), column = Product::column(block.thread, first + i);
        if constexpr (kHasPairs) put_pair(corner + row * to.row_stride + column, Out(values[i]), Out(values[i + 1]));
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      const uint row = Product::row(block.thread, first + i), column = Product::column(block.thread, first + i);
      if (at.y + row < to.rows && at.z + column < to.columns) {
        corner[row * to.row_stride + column * to.column_stride] = Out(values[i]);
      }
    }
  }
};

}  // namespace tsl
