// A tile of a matrix product by the tensor cores' instructions of compute capability 8.0 (mma.sync, ldmatrix, cp.async): half
// and bfloat16, and float rounded to TF32, with sums in float. Called by a block of 256 threads together, which keeps the
// tile's sums in registers.
//
// Note [sync product]
//   An operand's tile lies in shared memory as it lies in memory: line by line (a line has kDepthBytes, 64 or 128), or depth
//   by depth if its lines follow each other there. ldmatrix reads both, of the second kind transposed; for TF32, where it
//   cannot transpose, single words are loaded. So there are four loops, one for each pair of layouts.
//   Words of 16 bytes are permuted within a line so that the eight words that one ldmatrix phase reads lie in different
//   banks: word w of line (or depth) r is at w ^ swizzle(r). All addresses of a thread are then one offset, in which a step
//   changes bits that the others leave alone: (offset ^ constant) + constant.
//   The barrier is one step before the next stage is read. Right before the reads their latency would be bare, since the
//   assembler moves products above the barrier but never reads.
//   Operands that have no 16-byte words (odd pitches, addresses or strides) go through a fifth loop, which loads elements
//   into registers while the last stage is multiplied, and stores them line by line.
#pragma once

#include "prelude/half.h"
#include "prelude/mma_matrix.h"

#if TSL_CUDA

namespace tsl {

// Of TF32, in 32 bits.
#ifndef TSL_TF32
#define TSL_TF32 1
#endif
TSL_INLINE uint rounded_to_tf32(uint bits) {
#if __CUDA_ARCH__ >= 800 && TSL_TF32 == 1
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__builtin_bit_cast(float, bits)));
#elif TSL_TF32 == 2
  bits += 0x1000u;
#endif
  return bits;
}

// Four 8 x 8 matrices of 16-bit elements (or 8 x 4 of 32 bits), a row of 16 bytes from each lane's address.
template <bool kTransposed> TSL_INLINE void load_matrices(uint (&to)[4], uint from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
  }
#endif
}

#define TSL_SYNC_PRODUCT(name)                                                                                             \
  asm volatile("mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// 16 x 8 sums by 32 bytes of depth.
template <class T> TSL_INLINE void multiply_matrices(float* sum, const uint* a, const uint* b) {
#if __CUDA_ARCH__ >= 800
  if constexpr (IsSame<T, __half>::value) TSL_SYNC_PRODUCT("m16n8k16.row.col.f32.f16.f16.f32");
  else if constexpr (IsSame<T, __nv_bfloat16>::value) TSL_SYNC_PRODUCT("m16n8k16.row.col.f32.bf16.bf16.f32");
  else TSL_SYNC_PRODUCT("m16n8k8.row.col.f32.tf32.tf32.f32");
#endif
}
#undef TSL_SYNC_PRODUCT

// An operand's tile in shared memory.
template <class T, int kLines, int kDepthBytes, bool kAlongDepth> struct SyncTile {
  static constexpr uint kSize = sizeof(T), kDepth = kDepthBytes / kSize, kBytes = kLines * kDepthBytes;
  static constexpr uint kRuns = kAlongDepth ? kLines : kDepth;  // runs of elements that follow each other
  static constexpr uint kPitch = kBytes / kRuns, kWords = kPitch / 16;
  static_assert(kWords >= (kAlongDepth ? 4 : 8), "");

  static TSL_INLINE uint swizzle(uint run) {
    if constexpr (kWords == 4) return run >> 1 & 3u;  // two runs are a line of all banks
    else if constexpr (!kAlongDepth && kSize == 4) return (run & 3u) * 2u;  // single words are read: 8 lines, 4 depths
    else return run & 7u;
  }
};

// The share of a thread in bringing an operand into shared memory, 16 bytes at a time. A thread stays at one word of runs
// whose numbers differ by a multiple of 8, so that addresses move by constants.
template <class T, int kLines, int kDepthBytes, bool kAlongDepth> struct SyncSource {
  using Tile = SyncTile<T, kLines, kDepthBytes, kAlongDepth>;

  TSL_INLINE SyncSource(const ProductOperand<T>& operand, uint thread) : depth_(operand.depth) {
    const uint run = thread / Tile::kWords, word = thread % Tile::kWords, first = word * (16 / sizeof(T));
    to_ = run * Tile::kPitch + (word ^ Tile::swizzle(run)) * 16u;
    at_ = kAlongDepth ? first : run;
    const uint line = kAlongDepth ? run : first;
    left_ = operand.lines > line ? operand.lines - line : 0u;
    if (!kAlongDepth) left_ = left_ < 16 / sizeof(T) ? left_ * uint(sizeof(T)) : 16u;
    step_ = kPass * (kAlongDepth ? operand.line_stride : operand.depth_stride);
    stage_ = kAlongDepth ? longlong(Tile::kDepth) : Tile::kDepth * operand.depth_stride;
    from_ = operand.data + longlong(line) * operand.line_stride + longlong(at_) * operand.depth_stride;
  }

  // Copies the next stage to `to`.
  TSL_INLINE void fetch(uint to) {
    to += to_;
    const T* from = from_;
    uint valid = 0;  // bytes of each word, along the depth
    if (kAlongDepth && at_ < depth_) valid = depth_ - at_ < 16 / sizeof(T) ? (depth_ - at_) * uint(sizeof(T)) : 16u;
#pragma unroll
    for (int i = 0; i < Tile::kRuns / kPass; ++i, from += step_) {
      const bool is_inside = kAlongDepth ? i * kPass < left_ : at_ + i * kPass < depth_;
      copy_to_shared<16>(to + i * kPass * Tile::kPitch, from, is_inside ? (kAlongDepth ? valid : left_) : 0u);
    }
    from_ += stage_;
    at_ += Tile::kDepth;
  }

 private:
  static constexpr uint kPass = 256 / Tile::kWords;  // runs that the block copies at once
  static_assert(Tile::kRuns % kPass == 0 && kPass % 4 == 0 && (kPass % 8 == 0 || Tile::kSize == 4), "");

  const T* from_;
  longlong step_, stage_;
  uint to_, at_, depth_;  // at_: the depth of the next stage's first word
  uint left_;  // lines from the thread's first on, or bytes of each word, along the lines
};

// The same of any operand, in registers on the way: 4 bytes of a line at a time, in SyncTile's layout along the depth.
template <class T, int kLines, int kDepthBytes> struct SyncElements {
  using Tile = SyncTile<T, kLines, kDepthBytes, true>;
  static constexpr int kUnits = Tile::kBytes / 4 / 256;

  TSL_INLINE SyncElements(const ProductOperand<T>& operand, uint thread)
      : depth_stride_(operand.depth_stride), lines_(operand.lines), along_depth_(operand.line_stride != 1) {
    line_ = along_depth_ ? thread / kUnitsOfLine : thread % kLines;  // neighbouring threads load neighbouring elements
    unit_ = along_depth_ ? thread % kUnitsOfLine : thread / kLines;
    step_ = along_depth_ ? 256 / kUnitsOfLine * operand.line_stride : 256 / kLines * kOfUnit * depth_stride_;
    from_ = operand.data + longlong(line_) * operand.line_stride + longlong(unit_ * kOfUnit) * depth_stride_;
  }

  // Units from number `first` on; `left` of the depth is from here on.
  template <int kCount> TSL_INLINE void load(uint (&units)[kCount], int first, uint left) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const T* from = from_ + (first + i) * step_;
      const uint depth = unit(first + i) * kOfUnit, end = line(first + i) < lines_ ? left : 0u;
      units[i] = bits(from, depth < end);
      if constexpr (kOfUnit == 2) units[i] |= bits(from + depth_stride_, depth + 1 < end) << 16;
    }
  }
  template <int kCount> TSL_INLINE void store(const uint (&units)[kCount], int first, uint to) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint line = this->line(first + i), unit = this->unit(first + i);
      const uint place = line * Tile::kPitch + ((unit / 4u) ^ Tile::swizzle(line)) * 16u + unit % 4u * 4u;
      asm volatile("st.shared.b32 [%0], %1;" : : "r"(to + place), "r"(units[i]) : "memory");
    }
  }
  // The empty text hides that these stay the same: else all units' addresses are kept in registers, which spills.
  TSL_INLINE void advance() {
    from_ += Tile::kDepth * depth_stride_;
    asm volatile("" : "+l"(step_), "+r"(line_), "+r"(unit_));
  }

 private:
  static constexpr uint kOfUnit = 4 / sizeof(T), kUnitsOfLine = kDepthBytes / 4;

  TSL_INLINE uint line(int i) const { return line_ + (along_depth_ ? i * (256 / kUnitsOfLine) : 0u); }
  TSL_INLINE uint unit(int i) const { return unit_ + (along_depth_ ? 0u : i * (256u / kLines)); }
  static TSL_INLINE uint bits(const T* from, bool is_inside) {
    if constexpr (kOfUnit == 2) return is_inside ? *reinterpret_cast<const ushort*>(from) : 0u;
    else return is_inside ? *reinterpret_cast<const uint*>(from) : 0u;
  }

  const T* from_;
  longlong depth_stride_, step_;
  uint lines_, line_, unit_;
  bool along_depth_;
};

// What a warp's products take of a tile: kCount fragments of 16 lines by 32 bytes of depth, from line `first` on.
// kIsRight: the order of b's, whose first two words are of the first eight lines; a's alternate.
template <class T, int kLines, int kDepthBytes, bool kAlongDepth, bool kIsRight, int kCount> struct SyncFragments {
  using Tile = SyncTile<T, kLines, kDepthBytes, kAlongDepth>;
  static constexpr bool kSingle = !kAlongDepth && Tile::kSize == 4;

  TSL_INLINE SyncFragments(uint first, uint thread) {
    const uint lane = thread % 32u;
    if constexpr (kSingle) {
      const uint depth = lane % 4u, line = lane / 4u;
      offset_ = depth * Tile::kPitch + ((first / 4u + line / 4u) ^ Tile::swizzle(depth)) * 16u + line % 4u * 4u;
    } else {
      const uint row = lane % 8u, low = lane >> 3 & 1u, high = lane >> 4;
      const uint line_half = kIsRight ? high : low, depth_half = kIsRight ? low : high;
      if constexpr (kAlongDepth) {
        offset_ = (first + line_half * 8u + row) * Tile::kPitch + (depth_half ^ Tile::swizzle(row)) * 16u;
      } else {
        offset_ = (depth_half * 8u + row) * Tile::kPitch + ((first / 8u + line_half) ^ Tile::swizzle(row)) * 16u;
      }
    }
  }

  TSL_INLINE void load(uint (&to)[kCount][4], uint tile, int step) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kAlongDepth) {
        load_matrices<false>(to[i], tile + (offset_ ^ step * 32u) + i * 16u * Tile::kPitch);
      } else if constexpr (!kSingle) {
        load_matrices<true>(to[i], tile + (offset_ ^ i * 32u) + step * 16u * Tile::kPitch);
      } else {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const uint line_half = kIsRight ? word / 2 : word % 2, depth_half = kIsRight ? word % 2 : word / 2;
          const uint from = tile + (offset_ ^ (i * 64u + line_half * 32u)) + (step * 8u + depth_half * 4u) * Tile::kPitch;
          asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[i][word]) : "r"(from) : "memory");
        }
      }
      if constexpr (Tile::kSize == 4) {
#pragma unroll
        for (int word = 0; word < 4; ++word) to[i][word] = rounded_to_tf32(to[i][word]);
      }
    }
  }

 private:
  uint offset_;
};

template <class T, int kRows, int kColumns, bool kTf32 = false> struct SyncProduct {
  static_assert(sizeof(T) == 2 || (kTf32 && IsSame<T, float>::value), "floats are multiplied as TF32 only if that is asked for");
  using Sum = float;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;

 private:
  // The grid of warps; a warp's part of the tile is 64 x 64 or less, which is what registers hold.
  static constexpr int kDown = kRows > kColumns ? 4 : 2, kAcross = 8 / kDown;
  static constexpr int kOwnRows = kRows / kDown, kOwnColumns = kColumns / kAcross;
  static constexpr int kFragmentsA = kOwnRows / 16, kFragmentsB = kOwnColumns / 16;
  // Of one block on a multiprocessor, deep stages, which need fewer barriers; two blocks fill each other's gaps.
  static constexpr bool kIsLarge = kRows * kColumns > 128 * 128;
  static constexpr int kDepthBytes = kIsLarge ? 128 : 64, kStages = kIsLarge ? 3 : 4, kSteps = kDepthBytes / 32;
  static constexpr int kAhead = kIsLarge ? 1 : 0;  // steps that fragments are loaded ahead, if there are registers for it
  static constexpr int kBytesA = kRows * kDepthBytes, kStage = kBytesA + kColumns * kDepthBytes;
  static constexpr int kStoreBytes = kRows * kColumns * sizeof(T);

  static TSL_INLINE uint first_row(uint thread) { return thread / 32u % kDown * kOwnRows; }
  static TSL_INLINE uint first_column(uint thread) { return thread / 32u / kDown * kOwnColumns; }

 public:
  static constexpr int kSharedBytes = kStages * kStage > kStoreBytes ? kStages * kStage : kStoreBytes;

  static TSL_INLINE uint row(uint thread, int i) {
    return first_row(thread) + thread % 32u / 4u + i / (kFragmentsB * 8) * 16 + (i / 2 % 2) * 8;
  }
  static TSL_INLINE uint column(uint thread, int i) {
    return first_column(thread) + thread % 4u * 2u + i / 4 % (kFragmentsB * 2) * 8 + i % 2;
  }

  // Begins without a barrier: `shared` must be free. Ends with one.
  static TSL_INLINE void multiply(Sum (&sum)[kCount], Matrix<const T> a, Matrix<const T> b, uint row, uint column,
                                  unsigned char* shared, uint thread) {
    const auto rows = ProductOperand<T>::of_rows(a, row);
    const auto columns = ProductOperand<T>::of_columns(b, column);
    const uint base = shared_address(shared);
    const bool depth_a = rows.has_words_of_depth(), depth_b = columns.has_words_of_depth();
    if (!(depth_a || rows.has_words_of_lines()) || !(depth_b || columns.has_words_of_lines())) {
      multiply_elements(sum, rows, columns, base, thread);
    } else if (depth_a) {
      if (depth_b) multiply_words<true, true>(sum, rows, columns, base, thread);
      else multiply_words<true, false>(sum, rows, columns, base, thread);
    } else {
      if (depth_b) multiply_words<false, true>(sum, rows, columns, base, thread);
      else multiply_words<false, false>(sum, rows, columns, base, thread);
    }
    __syncthreads();
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
    __syncthreads();
    const uint rows = row < c.rows ? c.rows - row : 0u, columns = column < c.columns ? c.columns - column : 0u;
    T* to = c.data + longlong(row) * c.row_stride + longlong(column) * c.column_stride;
    const bool has_words =
        c.column_stride == 1 && ((reinterpret_cast<ulonglong>(to) | ulonglong(c.row_stride) * sizeof(T)) & 15u) == 0u;
    if (has_words) {
      constexpr uint kOfWord = 16 / sizeof(T), kWords = kColumns / kOfWord;
      const uint first = thread % kWords * kOfWord;
#pragma unroll 4
      for (uint r = thread / kWords; r < kRows; r += 256 / kWords) {
        if (r >= rows || first >= columns) continue;
        const unsigned char* from = shared + stored_at(r, first);
        T* place = to + longlong(r) * c.row_stride + first;
        if (first + kOfWord <= columns) {
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
          to[longlong(r) * c.row_stride + longlong(k) * c.column_stride] = *reinterpret_cast<const T*>(shared + stored_at(r, k));
        }
      }
    }
    __syncthreads();
  }

 private:
  template <bool kDepthA, bool kDepthB>
  static TSL_INLINE void multiply_words(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b, uint base,
                                        uint thread) {
    SyncSource<T, kRows, kDepthBytes, kDepthA> source_a(a, thread);
    SyncSource<T, kColumns, kDepthBytes, kDepthB> source_b(b, thread);
    const SyncFragments<T, kRows, kDepthBytes, kDepthA, false, kFragmentsA> fragments_a(first_row(thread), thread);
    const SyncFragments<T, kColumns, kDepthBytes, kDepthB, true, kFragmentsB> fragments_b(first_column(thread), thread);
    constexpr uint kDepth = kDepthBytes / sizeof(T);
    uint fetched = 0;  // depths that were asked for
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage, fetched += kDepth) {
      if (fetched < a.depth) {
        source_a.fetch(base + stage * kStage);
        source_b.fetch(base + stage * kStage + kBytesA);
      }
      end_copies();
    }
    wait_for_copies<kStages - 2>();
    __syncthreads();

    uint x[kAhead + 1][kFragmentsA][4], y[kAhead + 1][kFragmentsB][4];
    const auto load = [&](int to, uint stage, int step) TSL_INLINE_LAMBDA {
      fragments_a.load(x[to], stage, step);
      fragments_b.load(y[to], stage + kBytesA, step);
    };
    uint now = base, next = base + kStage, free = base + (kStages - 1) * kStage;
    if (kAhead) load(0, base, 0);
#pragma unroll 1
    for (uint done = 0; done < a.depth; done += kDepth, fetched += kDepth) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int ahead = step + kAhead;
        load(ahead % (kAhead + 1), ahead < kSteps ? now : next, ahead % kSteps);
        if (step == 0) {
          if (fetched < a.depth) {
            source_a.fetch(free);
            source_b.fetch(free + kBytesA);
          }
          end_copies();
        }
        if (ahead == kSteps - 1) {  // all loads of this stage are issued: behind the barrier it may be written again
          wait_for_copies<kStages - 2>();
          __syncthreads();
        }
        multiply_step(sum, x[step % (kAhead + 1)], y[step % (kAhead + 1)]);
      }
      free = now;
      now = next;
      next = next + kStage == base + kStages * kStage ? base : next + kStage;
    }
    wait_for_copies<0>();
  }

  static TSL_INLINE void multiply_elements(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b, uint base,
                                           uint thread) {
    constexpr int kBytes = 64;  // of depth
    using ElementsA = SyncElements<T, kRows, kBytes>;
    using ElementsB = SyncElements<T, kColumns, kBytes>;
    constexpr uint kTileA = kRows * kBytes, kTiles = kTileA + kColumns * kBytes, kDepth = kBytes / sizeof(T);
    constexpr int kUnits = kIsLarge ? 8 : 4, kAllUnits = ElementsA::kUnits + ElementsB::kUnits;  // so many at once
    ElementsA source_a(a, thread);
    ElementsB source_b(b, thread);
    const SyncFragments<T, kRows, kBytes, true, false, kFragmentsA> fragments_a(first_row(thread), thread);
    const SyncFragments<T, kColumns, kBytes, true, true, kFragmentsB> fragments_b(first_column(thread), thread);
    const auto copy = [&](int first, uint left, uint to, auto between) TSL_INLINE_LAMBDA {
      uint units[kUnits];
      const bool is_a = first < ElementsA::kUnits;
      if (is_a) source_a.load(units, first, left);
      else source_b.load(units, first - ElementsA::kUnits, left);
      between();
      if (is_a) source_a.store(units, first, to);
      else source_b.store(units, first - ElementsA::kUnits, to + kTileA);
    };
    const auto advance = [&]() TSL_INLINE_LAMBDA { source_a.advance(), source_b.advance(); };
#pragma unroll
    for (int first = 0; first < kAllUnits; first += kUnits) copy(first, a.depth, base, []() TSL_INLINE_LAMBDA {});
    advance();
    __syncthreads();
    uint now = base, next = base + kTiles;
#pragma unroll 1
    for (uint done = 0; done < a.depth; done += kDepth) {
      const uint left = a.depth - done > kDepth ? a.depth - done - kDepth : 0u;
#pragma unroll
      for (int step = 0; step < kAllUnits / kUnits; ++step) {
        copy(step * kUnits, left, next, [&]() TSL_INLINE_LAMBDA {
          if (step >= 2) return;
          uint x[kFragmentsA][4], y[kFragmentsB][4];
          fragments_a.load(x, now, step);
          fragments_b.load(y, now + kTileA, step);
          multiply_step(sum, x, y);
        });
      }
      advance();
      __syncthreads();
      const uint last = now;
      now = next;
      next = last;
    }
  }

  static TSL_INLINE void multiply_step(Sum (&sum)[kCount], const uint (&x)[kFragmentsA][4], const uint (&y)[kFragmentsB][4]) {
    constexpr int kAcross = kFragmentsB * 2;
#pragma unroll
    for (int i = 0; i < kFragmentsA; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int column = i % 2 ? kAcross - 1 - j : j;  // back and forth, so that operands are used again at once
        multiply_matrices<T>(&sum[(i * kAcross + column) * 4], x[i], &y[column / 2][column % 2 * 2]);
      }
    }
  }

  // Where store() puts an element in shared memory, with the words of a row permuted as those of operands are.
  static TSL_INLINE uint stored_at(uint row, uint column) {
    constexpr uint kOfWord = 16 / sizeof(T);
    const uint swizzle = sizeof(T) == 2 ? row & 7u : (row & 3u) * 2u;
    return row * uint(kColumns * sizeof(T)) + (column / kOfWord ^ swizzle) * 16u + column % kOfWord * uint(sizeof(T));
  }
};

}  // namespace tsl

#endif
