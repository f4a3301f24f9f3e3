// A tile of a matrix product by the tensor cores' instructions of compute capability 8.0 (mma.sync, ldmatrix,
// cp.async): half and bfloat16, and float rounded to TF32, with sums in float. Called by a block's 256 threads
// together, which keep the tile's sums in registers.
//
// Note [sync product]
//   An operand's tile lies in shared memory as it lies in memory: line by line (a line has kDepthBytes, 64 or 128), or
//   depth by depth if its lines follow each other there. ldmatrix reads both, of the second kind transposed; for TF32,
//   where it cannot transpose, single words are loaded. So there are four loops, one for each pair of layouts.
//   Words of 16 bytes are permuted within a line so that the eight words that one phase of ldmatrix reads lie in
//   different banks: word w of line (or depth) r is at w ^ swizzle(r). All addresses of a thread are then one offset,
//   in which a step changes bits that the others leave alone: (offset ^ constant) + constant.
//   The barrier is one step before the next stage is read. Right before the reads their latency would be bare, since
//   the assembler moves products above the barrier but never reads.
//   Operands that have no 16-byte words (odd pitches, addresses or strides) go through a fifth loop, which loads
//   elements into registers while the last stage is multiplied, and stores them line by line.
#pragma once

#include "prelude/half.h"
#include "prelude/mma_matrix.h"

#if TSL_CUDA

namespace tsl {

// The bits of a float to which half a unit in the last place of TF32 is added: the tensor cores cut off the rest, so it
// is rounded to nearest. Infinities and NaNs stay what they are, which adding to the bits would not do. cvt.rna is as
// good, but takes predicates, of which there are few.
TSL_INLINE uint rounded_to_tf32(uint bits) {
  const float power = __builtin_bit_cast(float, bits & 0xff800000u);  // of two, with the sign
  return __builtin_bit_cast(uint, __fmaf_rn(power, 0x1p-11f, __builtin_bit_cast(float, bits)));
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

#define TSL_SYNC_PRODUCT(name)                                                                             \
  asm volatile("mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                    \
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
  static_assert(kWords >= (kAlongDepth ? 4 : 8), "a swizzle permutes within a run");

  static TSL_INLINE uint swizzle(uint run) {
    if constexpr (kWords == 4) return run >> 1 & 3u;  // two runs are a line of all banks
    else if constexpr (!kAlongDepth && kSize == 4) return (run & 3u) * 2u;  // single words are read: 8 lines, 4 depths
    else return run & 7u;
  }
};

// The share of a thread in bringing an operand into shared memory, 16 bytes at a time. A thread stays at one word of
// runs whose numbers differ by a multiple of 8, so that addresses move by constants.
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
    from_ = operand.data + longlong(line) * operand.line_stride + longlong(at_) * operand.depth_stride;
  }

  // Copies the next stage to `to`; behind the end, zeros: no branch, so that this can stand between products.
  TSL_INLINE void fetch(uint to) {
    uint valid = left_;  // bytes of each word
    if (kAlongDepth) {
      valid = at_ < depth_ ? depth_ - at_ : 0u;
      valid = valid < 16 / sizeof(T) ? valid * uint(sizeof(T)) : 16u;
    }
    asm volatile("" : "+l"(step_));  // the compiler must not keep its multiples in registers
    const T* from = from_;
#pragma unroll
    for (int i = 0; i < kCopies; ++i, from += step_) {
      const bool is_inside = kAlongDepth ? i * kPass < left_ : at_ + i * kPass < depth_;
      copy_to_shared<16>(to + to_ + i * kPass * Tile::kPitch, from, is_inside ? valid : 0u);
    }
    from_ = kAlongDepth ? from_ + Tile::kDepth : from;
    at_ += Tile::kDepth;
  }

 private:
  static constexpr uint kPass = 256 / Tile::kWords;  // runs that the block copies at once
  static constexpr int kCopies = Tile::kRuns / kPass;
  static_assert(Tile::kRuns % kPass == 0 && kPass % (Tile::kSize == 4 ? 4 : 8) == 0, "passes have equal swizzles");

  const T* from_;
  longlong step_;  // from copy to copy
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
          const uint depth = step * 8u + depth_half * 4u;
          const uint from = tile + (offset_ ^ (i * 64u + line_half * 32u)) + depth * Tile::kPitch;
          asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[i][word]) : "r"(from) : "memory");
        }
      }
    }
  }

 private:
  uint offset_;
};

template <class T, int kRows, int kColumns, bool kTf32 = false> struct SyncProduct {
  static_assert(sizeof(T) == 2 || (kTf32 && IsSame<T, float>::value), "floats are rounded to TF32 only if asked for");
  using Sum = float;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;

 private:
  // The grid of warps; a warp's part of the tile is 64 x 64 or less, which is what registers hold.
  static constexpr int kDown = kRows > kColumns ? 4 : 2, kAcross = 8 / kDown;
  static constexpr int kOwnRows = kRows / kDown, kOwnColumns = kColumns / kAcross;
  static constexpr int kFragmentsA = kOwnRows / 16, kFragmentsB = kOwnColumns / 16;
  // Of one block on a multiprocessor, deep stages, which need fewer barriers; two blocks fill each other's gaps.
  static constexpr bool kIsLarge = kRows * kColumns > 128 * 128;
  static constexpr int kDepthBytes = kIsLarge ? 128 : 64, kSteps = kDepthBytes / 32, kStages = kIsLarge ? 3 : 4;
  static constexpr int kAhead = kIsLarge ? 1 : 0;  // steps that fragments are loaded ahead; two blocks lack registers
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
          const T* from = reinterpret_cast<const T*>(shared + stored_at(r, k));
          to[longlong(r) * c.row_stride + longlong(k) * c.column_stride] = *from;
        }
      }
    }
    meet_in_tile();
  }

 private:
  template <bool kDepthA, bool kDepthB>
  static TSL_INLINE void multiply_words(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
                                        uint base, uint thread) {
    SyncSource<T, kRows, kDepthBytes, kDepthA> source_a(a, thread);
    SyncSource<T, kColumns, kDepthBytes, kDepthB> source_b(b, thread);
    const SyncFragments<T, kRows, kDepthBytes, kDepthA, false, kFragmentsA> fragments_a(first_row(thread), thread);
    const SyncFragments<T, kColumns, kDepthBytes, kDepthB, true, kFragmentsB> fragments_b(first_column(thread), thread);
    constexpr uint kDepth = kDepthBytes / sizeof(T);
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      source_a.fetch(base + stage * kStage);
      source_b.fetch(base + stage * kStage + kBytesA);
      end_copies();
    }
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
    for (uint done = 0; done < a.depth; done += kDepth) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int ahead = step + kAhead;
        load(ahead % (kAhead + 1), ahead < kSteps ? now : next, ahead % kSteps);
        if (step == 0) {
          source_a.fetch(free);
          source_b.fetch(free + kBytesA);
          end_copies();
        }
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

  static TSL_INLINE void multiply_elements(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
                                           uint base, uint thread) {
    constexpr int kBytes = 64;  // of depth
    using ElementsA = SyncElements<T, kRows, kBytes>;
    using ElementsB = SyncElements<T, kColumns, kBytes>;
    constexpr uint kTileA = kRows * kBytes, kTiles = kTileA + kColumns * kBytes, kDepth = kBytes / sizeof(T);
    constexpr int kUnits = kIsLarge ? 8 : 4, kAllUnits = ElementsA::kUnits + ElementsB::kUnits;  // so many at once
    ElementsA source_a(a, thread);
    ElementsB source_b(b, thread);
    const SyncFragments<T, kRows, kBytes, true, false, kFragmentsA> fragments_a(first_row(thread), thread);
    const SyncFragments<T, kColumns, kBytes, true, true, kFragmentsB> fragments_b(first_column(thread), thread);
    const auto load = [&](uint (&units)[kUnits], int first, uint left) TSL_INLINE_LAMBDA {
      if (first < ElementsA::kUnits) source_a.load(units, first, left);
      else source_b.load(units, first - ElementsA::kUnits, left);
    };
    const auto store = [&](const uint (&units)[kUnits], int first, uint to) TSL_INLINE_LAMBDA {
      if (first < ElementsA::kUnits) source_a.store(units, first, to);
      else source_b.store(units, first - ElementsA::kUnits, to + kTileA);
    };
    const auto advance = [&]() TSL_INLINE_LAMBDA { source_a.advance(), source_b.advance(); };
#pragma unroll
    for (int first = 0; first < kAllUnits; first += kUnits) {
      uint units[kUnits];
      load(units, first, a.depth);
      store(units, first, base);
    }
    advance();
    meet_in_tile();
    uint now = base, next = base + kTiles;
#pragma unroll 1
    for (uint done = 0; done < a.depth; done += kDepth) {
      const uint left = a.depth - done > kDepth ? a.depth - done - kDepth : 0u;
#pragma unroll
      for (int step = 0; step < kAllUnits / kUnits; ++step) {
        uint units[kUnits];
        load(units, step * kUnits, left);
        if (step < 2) {
          uint x[kFragmentsA][4], y[kFragmentsB][4];
          fragments_a.load(x, now, step);
          fragments_b.load(y, now + kTileA, step);
          round(x, y);
          multiply_step(sum, x, y, [](int) TSL_INLINE_LAMBDA {});
        }
        store(units, step * kUnits, next);
      }
      advance();
      meet_in_tile();
      const uint last = now;
      now = next;
      next = last;
    }
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

  // Where store() puts an element in shared memory, with the words of a row permuted as those of operands are.
  static TSL_INLINE uint stored_at(uint row, uint column) {
    constexpr uint kOfWord = 16 / sizeof(T);
    const uint swizzle = sizeof(T) == 2 ? row & 7u : (row & 3u) * 2u;
    return row * uint(kColumns * sizeof(T)) + (column / kOfWord ^ swizzle) * 16u + column % kOfWord * uint(sizeof(T));
  }
};

}  // namespace tsl

#endif
