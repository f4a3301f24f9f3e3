// A tile of a matrix product by the tensor cores' instructions of compute capability 8.0 (mma.sync, ldmatrix,
// cp.async): half and bfloat16, and float rounded to TF32, with sums in float. Called by a block's 256 threads
// together, which keep the tile's sums in registers.
//
// Note [sync product]
//   An operand's tile lies in shared memory as it lies in memory: line by line (a line has kDepthBytes, 64 or 128), or
//   depth by depth if its lines follow each other there. ldmatrix reads both, of the second kind transposed; for TF32,
//   where it cannot transpose, single words are loaded. So there are four loops, one for each pair of layouts.
//   Vectors of 16 bytes are permuted within a line so that the eight vectors that one phase of ldmatrix reads lie in
//   different banks: vector v of line (or depth) r is at v ^ swizzle(r). All addresses of a thread are then one offset,
//   in which a step changes bits that the others leave alone: (offset ^ constant) + constant.
//   The barrier is one step before the next stage is read. Right before the reads their latency would be bare, since
//   the assembler moves products above the barrier but never reads.
//   Operands that have no 16-byte vectors (odd pitches, addresses or strides) go through a fifth loop, which brings them
//   element by element.
//   Near the limit of 255 registers this is fragile: where a branch stands between the products of one loop, or values
//   are kept that a loop lacks registers for, the assembler orders the products of all loops anew, moves sums from
//   register to register and hardly uses an operand twice in a row, which costs a tenth and more.
#pragma once

#include "prelude/mma_steps.h"
#include "prelude/mma_sync_tiles.h"

#if TSL_CUDA

namespace tsl {

template <class T, int kRows, int kColumns, bool kTf32 = false> struct SyncProduct {
  static_assert(sizeof(T) == 2 || (kTf32 && IsSame<T, float>::value), "floats are rounded to TF32 only if asked for");
  using Sum = float;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;

 private:
  // The grid of warps; a warp's part of the tile is 64 x 64 or less, which is what registers hold.
  static constexpr int kDown = kRows > kColumns ? 4 : 2, kAcross = 8 / kDown;
  static constexpr int kFragmentsA = kRows / kDown / 16, kFragmentsB = kColumns / kAcross / 16;
  static_assert(kFragmentsA * kDown * 16 == kRows && kFragmentsB * kAcross * 16 == kColumns, "warps share out a tile evenly");
  // Of one block on a multiprocessor, deep stages, which need fewer barriers; two blocks fill each other's gaps.
  static constexpr bool kIsLarge = kRows * kColumns > 128 * 128;
  static constexpr int kDepthBytes = kIsLarge ? 128 : 64, kSteps = kDepthBytes / 32, kStages = kIsLarge ? 3 : 4;
  static constexpr int kAhead = kIsLarge ? 1 : 0;  // steps that fragments are loaded ahead; two blocks lack registers
  template <bool kAlongDepth> using TileA = SyncTile<T, kRows, kDepthBytes, kAlongDepth>;
  template <bool kAlongDepth> using TileB = SyncTile<T, kColumns, kDepthBytes, kAlongDepth>;
  static constexpr uint kDepth = kDepthBytes / sizeof(T);
  static constexpr int kBytesA = kRows * kDepthBytes, kStage = kBytesA + padded_lines(kColumns) * kDepthBytes;
  static constexpr int kStoreBytes = kRows * kColumns * sizeof(T);

  static TSL_INLINE uint warp_row(uint thread) { return thread / 32u % kDown; }
  static TSL_INLINE uint warp_column(uint thread) { return thread / 32u / kDown; }

 public:
  static constexpr int kSharedBytes = kStages * kStage > kStoreBytes ? kStages * kStage : kStoreBytes;

  static TSL_INLINE uint row(uint thread, int i) {
    const uint fragment = i / (kFragmentsB * 8);
    return (fragment * kDown + warp_row(thread)) * 16 + thread % 32u / 4u + i / 2 % 2 * 8;
  }
  static TSL_INLINE uint column(uint thread, int i) {
    const uint fragment = i / 8 % kFragmentsB;
    return (fragment * kAcross + warp_column(thread)) * 16 + thread % 4u * 2u + i / 4 % 2 * 8 + i % 2;
  }

  // Begins without a barrier: `shared` must be free. Ends with one.
  static TSL_INLINE void multiply(Sum (&sum)[kCount], Matrix<const T> a, Matrix<const T> b, uint row, uint column,
                                  unsigned char* shared, uint thread) {
    const auto rows = ProductOperand<T>::of_rows(a, row);
    const auto columns = ProductOperand<T>::of_columns(b, column);
    const uint base = shared_address(shared);
    const bool depth_a = rows.has_vectors_of_depth(), depth_b = columns.has_vectors_of_depth();
    const bool have_vectors = (depth_a || rows.has_vectors_of_lines()) && (depth_b || columns.has_vectors_of_lines());
    if (!have_vectors || !is_near(rows) || !is_near(columns)) {
      multiply_elements(sum, rows, columns, base, thread);
    } else if (depth_a) {
      if (depth_b) multiply_vectors<true, true>(sum, rows, columns, base, thread);
      else multiply_vectors<true, false>(sum, rows, columns, base, thread);
    } else {
      if (depth_b) multiply_vectors<false, true>(sum, rows, columns, base, thread);
      else multiply_vectors<false, false>(sum, rows, columns, base, thread);
    }
    meet_in_tile();
  }

  // Whether multiply_list takes these: vectors of 16 bytes, and blocks that lie inside a, of whole stages. High blocks have stages
  // enough of their own: of 128 it takes 1.2 times as long as one after the other.
  static TSL_INLINE bool takes_list(Matrix<const T> a, Matrix<const T> block, longlong apart, uint row, uint column) {
    const auto rows = ProductOperand<T>::of_rows(a, row);
    const auto columns = ProductOperand<T>::of_columns(block, column);
    return (rows.has_vectors_of_depth() || rows.has_vectors_of_lines()) &&
           (columns.has_vectors_of_depth() || columns.has_vectors_of_lines()) && is_near(rows) && is_near(columns) &&
           apart % longlong(16 / sizeof(T)) == 0 && block.rows <= 64 && block.rows % kDepth == 0 && a.columns % block.rows == 0;
  }

  // a's rows times the blocks of a list, each `apart` elements behind the one before in memory. Stages go on from block to block:
  // else each block would begin with none on its way. Begins without a barrier: `shared` must be free. Ends with one.
  static TSL_INLINE void multiply_list(Sum (&sum)[kCount], Matrix<const T> a, Matrix<const T> block, longlong apart,
                                       const BlockList& list, uint row, uint column, unsigned char* shared, uint thread) {
    const auto rows = ProductOperand<T>::of_rows(a, row);
    const auto columns = ProductOperand<T>::of_columns(block, column);
    const uint base = shared_address(shared), first = list.first(), end = list.end();
    if (first < end) {
      const SyncList blocks{list, end, apart * longlong(sizeof(T))};
      const bool depth_a = rows.has_vectors_of_depth(), depth_b = columns.has_vectors_of_depth();
      if (depth_a) {
        if (depth_b) multiply_blocks<true, true>(sum, rows, columns, blocks, first, base, thread);
        else multiply_blocks<true, false>(sum, rows, columns, blocks, first, base, thread);
      } else {
        if (depth_b) multiply_blocks<false, true>(sum, rows, columns, blocks, first, base, thread);
        else multiply_blocks<false, false>(sum, rows, columns, blocks, first, base, thread);
      }
    }
    meet_in_tile();
  }

  // Begins without a barrier: `shared` must be free. Ends with one.
  static TSL_INLINE void store(const Sum (&sum)[kCount], Matrix<T> c, uint row, uint column, unsigned char* shared,
                               uint thread) {
    const uint base = shared_address(shared);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const uint place = base + stored_at(SyncProduct::row(thread, i), SyncProduct::column(thread, i));
      if constexpr (sizeof(T) == 2) {
        const uint pair = T(sum[i]).bits | uint(T(sum[i + 1]).bits) << 16;
        asm volatile("st.shared.b32 [%0], %1;" : : "r"(place), "r"(pair) : "memory");
      } else {
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" : : "r"(place), "f"(sum[i]), "f"(sum[i + 1]) : "memory");
      }
    }
    meet_in_tile();
    const uint rows = row < c.rows ? c.rows - row : 0u, columns = column < c.columns ? c.columns - column : 0u;
    T* to = c.data + longlong(row) * c.row_stride + longlong(column) * c.column_stride;
    if (c.column_stride == 1 && has_vectors(to, c.row_stride)) {
      constexpr uint kOfVector = 16 / sizeof(T), kVectors = kColumns / kOfVector;
      const uint first = thread % kVectors * kOfVector;
#pragma unroll 4
      for (uint r = thread / kVectors; r < kRows; r += 256 / kVectors) {
        if (r >= rows || first >= columns) continue;
        const unsigned char* from = shared + stored_at(r, first);
        T* place = to + longlong(r) * c.row_stride + first;
        if (first + kOfVector <= columns) {
          *reinterpret_cast<uint4*>(place) = *reinterpret_cast<const uint4*>(from);
        } else {
#pragma unroll 1
          for (uint i = 0; first + i < columns; ++i) place[i] = reinterpret_cast<const T*>(from)[i];
        }
      }
    } else {
      const bool along_rows = c.row_stride == 1;
#pragma unroll 4
      for (uint i = thread; i < kRows * kColumns; i += 256) {
        const uint r = along_rows ? i % kRows : i / kColumns, k = along_rows ? i / kRows : i % kColumns;
        if (r < rows && k < columns) {
          const T* from = reinterpret_cast<const T*>(shared + stored_at(r, k));
          to[longlong(r) * c.row_stride + longlong(k) * c.column_stride] = *from;
        }
      }
    }
    meet_in_tile();
  }

 private:
  // Of the stages the last is the first to be multiplied: only it may end before its depth does, and it is not fetched
  // in the loop.
  template <bool kDepthA, bool kDepthB>
  static TSL_INLINE void multiply_vectors(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
                                        uint base, uint thread) {
    SyncSource<TileA<kDepthA>> source_a(a, thread);
    SyncSource<TileB<kDepthB>> source_b(b, thread);
    const uint stages = stages_of(a.depth), last = (stages - 1) * kDepth;
    source_a.fetch_last(base, last, a.depth, thread);
    source_b.fetch_last(base + kBytesA, last, a.depth, thread);
    end_copies();
    const auto fetch = [&](uint to, bool more) TSL_INLINE_LAMBDA {
      source_a.fetch(to, more);
      source_b.fetch(to + kBytesA, more);
      end_copies();
    };
#pragma unroll
    for (uint stage = 1; stage < kStages - 1; ++stage) fetch(base + stage * kStage, stage < stages);
    multiply_stages<kDepthA, kDepthB>(sum, stages, base, thread, fetch);
  }

  // A list, without branches, so that this can stand between products: the entry of a block is read a block ahead.
  struct SyncList {
    const BlockList& list;
    uint end;
    longlong apart;  // bytes
    struct Block { uint depth, matrix; };
    TSL_INLINE Block operator[](uint i) const {
      const uint at = least(i, end - 1);
      return {list.depth(at), list.matrix(at)};
    }
  };
  template <bool kDepthA, bool kDepthB>
  static TSL_INLINE void multiply_blocks(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
                                         const SyncList& blocks, uint first, uint base, uint thread) {
    SyncSource<TileA<kDepthA>> source_a(a, thread);
    SyncSource<TileB<kDepthB>> source_b(b, thread);
    const uint stages_of_block = b.depth / kDepth, stages = (blocks.end - first) * stages_of_block;
    const longlong apart_a = a.depth_stride * longlong(sizeof(T)), apart_b = b.depth_stride * longlong(sizeof(T));
    typename SyncList::Block now = blocks[first], next = blocks[first + 1];
    uint number = first, stage_of_block = 0;
    const auto fetch = [&](uint to, bool more) TSL_INLINE_LAMBDA {
      const uint depth = stage_of_block * kDepth;
      source_a.fetch_at(to, longlong(now.depth * b.depth + depth) * apart_a, more);
      source_b.fetch_at(to + kBytesA, longlong(now.matrix) * blocks.apart + longlong(depth) * apart_b, more);
      end_copies();
      const bool ends = ++stage_of_block == stages_of_block;
      stage_of_block = ends ? 0u : stage_of_block;
      number += ends ? 1u : 0u;
      now.depth = ends ? next.depth : now.depth;
      now.matrix = ends ? next.matrix : now.matrix;
      next = blocks[number + 1];
    };
#pragma unroll
    for (uint stage = 0; stage < kStages - 1; ++stage) fetch(base + stage * kStage, stage < stages);
    multiply_stages<kDepthA, kDepthB>(sum, stages, base, thread, fetch);
  }

  static TSL_INLINE void multiply_elements(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
                                           uint base, uint thread) {
    // Two stages in turn need one barrier each: who writes to one has seen all others begin with the other.
    uint now = base, next = base + kStage;
#pragma unroll 1
    for (uint done = 0; done < a.depth; done += kDepth) {
      SyncElements<TileA<true>>(a, hidden(thread)).fetch(now, done);
      SyncElements<TileB<true>>(b, hidden(thread)).fetch(now + kBytesA, done);
      end_copies();
      wait_for_copies<0>();
      // Of many registers, a loop of one turn: without one, there would be branches between products.
      const uint stages = kIsLarge ? hidden(1) : 1;
      multiply_stages<true, true>(sum, stages, now, thread, [](uint, bool) TSL_INLINE_LAMBDA {});
      const uint last = now;
      now = next;
      next = last;
    }
  }

  // Whether vectors that follow each other across memory are so near that an int counts those between them.
  static TSL_INLINE bool is_near(const ProductOperand<T>& operand) {
    const longlong pitch = operand.line_stride == 1 ? operand.depth_stride : operand.line_stride;
    const longlong vectors = pitch / longlong(16 / sizeof(T));
    return vectors == int(vectors);
  }
  static TSL_INLINE uint stages_of(uint depth) { return (depth + kDepth - 1) / kDepth; }

  // The first kStages - 1 stages are on their way; fetch(to, more) brings the next, if there are more.
  template <bool kDepthA, bool kDepthB, class Fetch>
  static TSL_INLINE void multiply_stages(Sum (&sum)[kCount], uint stages, uint base, uint thread, Fetch fetch) {
    const SyncFragments<TileA<kDepthA>, false, kDown, kFragmentsA> fragments_a(warp_row(thread), thread);
    const SyncFragments<TileB<kDepthB>, true, kAcross, kFragmentsB> fragments_b(warp_column(thread), thread);
    wait_for_copies<kStages - 2>();
    meet_in_tile();

    uint x[kAhead + 1][kFragmentsA][4], y[kAhead + 1][kFragmentsB][4];
    const auto load = [&](int to, uint stage, int step) TSL_INLINE_LAMBDA {
      fragments_a.load(x[to], stage, step);
      fragments_b.load(y[to], stage + kBytesA, step);
    };
    uint now = base, next = base + kStage, free = base + (kStages - 1) * kStage;
    if (kAhead) {
      load(0, base, 0);
      round(x[0], y[0]);
    }
#pragma unroll 1
    for (uint left = stages; left > 0; --left) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int ahead = step + kAhead;
        load(ahead % (kAhead + 1), ahead < kSteps ? now : next, ahead % kSteps);
        if (step == 0) fetch(free, left > kStages - 1);
        if (ahead == kSteps - 1) {  // all loads of this stage are issued: behind the barrier it may be written again
          wait_for_copies<kStages - 2>();
          meet_in_tile();
        }
        const int used = step % (kAhead + 1), other = ahead % (kAhead + 1);
        if (!kAhead) round(x[used], y[used]);
        multiply_step(sum, x[used], y[used], [&](int row) TSL_INLINE_LAMBDA {
          // Of the next step, as late as products hide it: where fragments are loaded, it would wait for them.
          if (!kAhead) return;
          round(x[other][row]);
#pragma unroll
          for (int i = row; i < kFragmentsB; i += kFragmentsA) round(y[other][i]);
        });
      }
      free = now;
      now = next;
      next = next + kStage == base + kStages * kStage ? base : next + kStage;
    }
    wait_for_copies<0>();
  }

  // The fragments were rounded. after_row(i) is done between products.
  template <class AfterRow>
  static TSL_INLINE void multiply_step(Sum (&sum)[kCount], const uint (&x)[kFragmentsA][4],
                                       const uint (&y)[kFragmentsB][4], AfterRow after_row) {
    constexpr int kAcross = kFragmentsB * 2;
#pragma unroll
    for (int i = 0; i < kFragmentsA; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int column = i % 2 ? kAcross - 1 - j : j;  // back and forth, so that operands are used again at once
        multiply_matrices<T>(&sum[(i * kAcross + column) * 4], x[i], &y[column / 2][column % 2 * 2]);
      }
      after_row(i);
    }
  }
  static TSL_INLINE void round(uint (&words)[4]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = rounded_to_tf32(words[i]);
    }
  }
  static TSL_INLINE void round(uint (&x)[kFragmentsA][4], uint (&y)[kFragmentsB][4]) {
#pragma unroll
    for (int i = 0; i < kFragmentsA; ++i) round(x[i]);
#pragma unroll
    for (int i = 0; i < kFragmentsB; ++i) round(y[i]);
  }

  // Where store() puts an element in shared memory, with the vectors of a row permuted as those of operands are.
  static TSL_INLINE uint stored_at(uint row, uint column) {
    constexpr uint kOfVector = 16 / sizeof(T);
    const uint swizzle = sizeof(T) == 2 ? row & 7u : (row & 3u) * 2u;
    return row * uint(kColumns * sizeof(T)) + (column / kOfVector ^ swizzle) * 16u + column % kOfVector * uint(sizeof(T));
  }
};

}  // namespace tsl

#endif
