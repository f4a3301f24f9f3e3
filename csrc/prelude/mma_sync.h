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
//   Operands that have no 16-byte words (odd pitches, addresses or strides) go through a fifth loop, which brings them
//   element by element.
//   Near the limit of 255 registers this is fragile: where a branch stands between the products of one loop, or values
//   are kept that a loop lacks registers for, the assembler orders the products of all loops anew, moves sums from
//   register to register and hardly uses an operand twice in a row, which costs a tenth and more.
#pragma once

#include "prelude/half.h"
#include "prelude/mma_matrix.h"
#include "prelude/mma_steps.h"

#if TSL_CUDA

namespace tsl {

// The tensor cores cut off all but ten bits behind a float's leading one. Of what this gives they see a neighbour in
// TF32 that is at most 2^-11 of the float away, the most that rounding to nearest may err. What TF32 can represent stays
// what it is, since less than a unit in the last place is added, and so do infinities and NaNs. To round takes two
// instructions or more, this is one.
TSL_INLINE uint rounded_to_tf32(uint bits) {
  return __builtin_bit_cast(uint, __fmul_rn(__builtin_bit_cast(float, bits), 1.0f + 0x1p-11f));
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

// Runs along the lines are as far apart as those of the next power of two, so that threads share them out evenly.
TSL_INLINE constexpr uint padded_lines(uint lines) { return lines <= 64 ? 64 : 2 * padded_lines((lines + 1) / 2); }

// An operand's tile in shared memory.
template <class T, int kLines_, int kDepthBytes, bool kAlongDepth_> struct SyncTile {
  using Element = T;
  static constexpr bool kAlongDepth = kAlongDepth_;
  static constexpr uint kLines = kLines_, kSize = sizeof(T), kDepth = kDepthBytes / kSize, kOfWord = 16 / kSize;
  static constexpr uint kRuns = kAlongDepth ? kLines : kDepth;  // runs of elements that follow each other
  static constexpr uint kPitch = kAlongDepth ? kDepthBytes : padded_lines(kLines) * kSize, kWords = kPitch / 16;
  static_assert(kWords >= (kAlongDepth ? 4 : 8), "a swizzle permutes within a run");

  static TSL_INLINE uint swizzle(uint run) {
    if constexpr (kWords == 4) return run >> 1 & 3u;  // two runs are a line of all banks
    else if constexpr (!kAlongDepth && kSize == 4) return (run & 3u) * 2u;  // single words are read: 8 lines, 4 depths
    else return run & 7u;
  }
};

// The share of a thread in bringing an operand into shared memory, 16 bytes at a time. A thread stays at one word of
// runs whose numbers differ by a multiple of 8, so that addresses move by constants.
template <class Tile> struct SyncSource {
  using T = typename Tile::Element;
  static constexpr bool kAlongDepth = Tile::kAlongDepth;

  TSL_INLINE SyncSource(const ProductOperand<T>& operand, uint thread) {
    const uint run = thread / Tile::kWords, word = thread % Tile::kWords, first = word * Tile::kOfWord;
    const uint line = kAlongDepth ? run : first, depth = kAlongDepth ? first : run;
    to_ = run * Tile::kPitch + (word ^ Tile::swizzle(run)) * 16u;
    pitch_ = int((kAlongDepth ? operand.line_stride : operand.depth_stride) / Tile::kOfWord);
    left_ = operand.lines > line && line < Tile::kLines ? operand.lines - line : 0u;
    if (!kAlongDepth) left_ = bytes(left_);
    from_ = reinterpret_cast<const unsigned char*>(operand.data + longlong(line) * operand.line_stride +
                                                   longlong(depth) * operand.depth_stride);
  }

  // Copies the last stage, from depth `first` on; behind the end, zeros.
  TSL_INLINE void fetch_last(uint to, uint first, uint depth, uint thread) const {
    const unsigned char* from = from_ + longlong(first) * (kAlongDepth ? longlong(sizeof(T)) : longlong(pitch_) * 16);
    const uint at = first + (kAlongDepth ? thread % Tile::kWords * Tile::kOfWord : thread / Tile::kWords);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      uint valid = left_;
      if (kAlongDepth) valid = i * kPass < left_ && at < depth ? bytes(depth - at) : 0u;
      else if (at + i * kPass >= depth) valid = 0u;
      copy(to, i, from, valid);
    }
  }

  // Copies the first stage, then the next ones, whose depth is all there; zeros if there are no `more`. No branch, so
  // that this can stand between products.
  TSL_INLINE void fetch(uint to, bool more) {
    pitch_ = int(hidden(uint(pitch_)));  // its multiples would be kept in registers
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kAlongDepth) copy(to, i, from_, more && i * kPass < left_ ? 16u : 0u);
      else copy(to, i, from_, more ? left_ : 0u);
    }
    from_ += kAlongDepth ? Tile::kPitch : longlong(pitch_) * (Tile::kRuns * 16);
  }

  // Copies a stage that begins so many bytes behind the first one; zeros if there are no `more`.
  TSL_INLINE void fetch_at(uint to, longlong behind, bool more) {
    pitch_ = int(hidden(uint(pitch_)));
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kAlongDepth) copy(to, i, from_ + behind, more && i * kPass < left_ ? 16u : 0u);
      else copy(to, i, from_ + behind, more ? left_ : 0u);
    }
  }

 private:
  static constexpr uint kPass = 256 / Tile::kWords;  // runs that the block copies at once
  static constexpr int kCopies = Tile::kRuns / kPass;
  static_assert(Tile::kRuns % kPass == 0 && kPass % (Tile::kSize == 4 ? 4 : 8) == 0, "passes have equal swizzles");

  static TSL_INLINE uint bytes(uint elements) { return elements < Tile::kOfWord ? elements * Tile::kSize : 16u; }
  TSL_INLINE void copy(uint to, int pass, const unsigned char* from, uint valid) const {
    copy_to_shared<16>(to + to_ + pass * kPass * Tile::kPitch, from + longlong(pitch_) * int(pass * kPass * 16), valid);
  }

  const unsigned char* from_;
  int pitch_;  // from run to run, in words
  uint to_;
  uint left_;  // lines from the thread's first on, or bytes of each word, along the lines
};

// The same of any operand, element by element, in a tile along the depth. A unit is 4 bytes of a line. Of 64 lines a
// thread has kCount units, one above the other or side by side, as memory lies: neighbouring threads load neighbours.
template <class Tile> struct SyncElements {
  using T = typename Tile::Element;

  TSL_INLINE SyncElements(const ProductOperand<T>& operand, uint thread) : operand_(operand) {
    const bool along_depth = operand.line_stride != 1;
    const uint unit = along_depth ? thread % kUnits : thread / 64u;
    line_ = along_depth ? thread / kUnits : thread % 64u;
    depth_ = unit * kOfUnit;
    next_line_ = along_depth ? 256u / kUnits : 0u;
    next_depth_ = along_depth ? 0u : 4u * kOfUnit;
    place_ = line_ * Tile::kPitch + ((unit / 4u) ^ Tile::swizzle(line_)) * 16u + unit % 4u * 4u;
  }

  // Brings the stage from depth `first` on; complete as copies are.
  TSL_INLINE void fetch(uint to, uint first) const {
    const longlong lines_apart = operand_.line_stride, depth_apart = operand_.depth_stride;
    const longlong step = next_line_ * lines_apart + next_depth_ * depth_apart;
    const T* from = operand_.data + line_ * lines_apart + (first + depth_) * depth_apart;
    const uint left = operand_.depth - first;
#pragma unroll 1
    for (uint lines = 0; lines < Tile::kLines; lines += 64, from += 64 * lines_apart) {
      const uint next_line = hidden(next_line_), next_depth = hidden(next_depth_);
      uint units[kCount];  // all loads stand before the stores, which no load moves across
      const T* at = from;
#pragma unroll
      for (uint i = 0; i < kCount; ++i, at += step) {
        const uint end = lines + line_ + i * next_line < operand_.lines ? left : 0u, depth = depth_ + i * next_depth;
        if constexpr (kIsCopied) copy_to_shared<4>(place(to, lines, i, next_line), at, depth < end ? 4u : 0u);
        else if constexpr (kOfUnit == 1) units[i] = depth < end ? *reinterpret_cast<const uint*>(at) : 0u;
        else units[i] = half(at, depth < end) | half(at + depth_apart, depth + 1 < end) << 16;
      }
#pragma unroll
      for (uint i = 0; i < kCount && !kIsCopied; ++i) {
        asm volatile("st.shared.b32 [%0], %1;" : : "r"(place(to, lines, i, next_line)), "r"(units[i]) : "memory");
      }
    }
  }

 private:
  static constexpr uint kOfUnit = 4 / sizeof(T), kUnits = Tile::kPitch / 4, kCount = kUnits / 4;
  // Copies of 4 bytes are twice as fast, but take registers that tiles lack of which two are on a multiprocessor.
  static constexpr bool kIsCopied = kOfUnit == 1 && Tile::kPitch == 128;
  static_assert(Tile::kLines % 64 == 0, "there are 64 lines, or several times as many");

  // Of unit number i: lines a multiple of 8 apart have equal swizzles, and units along the depth are words apart.
  TSL_INLINE uint place(uint to, uint lines, uint i, uint next_line) const {
    return to + (lines + i * next_line) * Tile::kPitch + (place_ ^ (next_line > 0 ? 0u : i * 16u));
  }
  static TSL_INLINE uint half(const T* from, bool is_inside) {
    return is_inside ? *reinterpret_cast<const ushort*>(from) : 0u;
  }

  ProductOperand<T> operand_;
  uint line_, depth_, next_line_, next_depth_, place_;
};

// What a warp's products take of a tile: kCount fragments of 16 lines by 32 bytes of depth. kWarps warps take them in
// turn, so that a warp's are 16 * kWarps lines apart, which mostly is a constant that no swizzle touches.
// kIsRight: the order of b's, whose first two words are of the first eight lines; a's alternate.
template <class Tile, bool kIsRight, int kWarps, int kCount> struct SyncFragments {
  static constexpr bool kAlongDepth = Tile::kAlongDepth, kSingle = !kAlongDepth && Tile::kSize == 4;

  TSL_INLINE SyncFragments(uint warp, uint thread) {
    const uint lane = thread % 32u, first = warp * 16u;
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
      const uint line = i * kWarps * 16u;
      if constexpr (kAlongDepth) {
        load_matrices<false>(to[i], tile + (offset_ ^ step * 32u) + line * Tile::kPitch);
      } else if constexpr (!kSingle) {
        const uint bytes = line * Tile::kSize;
        load_matrices<true>(to[i], tile + (offset_ ^ bytes % 128u) + bytes / 128u * 128u + step * 16u * Tile::kPitch);
      } else {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const uint line_half = kIsRight ? word / 2 : word % 2, depth_half = kIsRight ? word % 2 : word / 2;
          const uint depth = step * 8u + depth_half * 4u;
          const uint from = tile + (offset_ ^ line_half * 32u) + line * 4u + depth * Tile::kPitch;
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
    const bool depth_a = rows.has_words_of_depth(), depth_b = columns.has_words_of_depth();
    const bool have_words = (depth_a || rows.has_words_of_lines()) && (depth_b || columns.has_words_of_lines());
    if (!have_words || !is_near(rows) || !is_near(columns)) {
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

  // Whether multiply_list takes these: words of 16 bytes, and blocks that lie inside a, of whole stages.
  static TSL_INLINE bool takes_list(Matrix<const T> a, Matrix<const T> block, longlong apart, uint row, uint column) {
    const auto rows = ProductOperand<T>::of_rows(a, row);
    const auto columns = ProductOperand<T>::of_columns(block, column);
    return (rows.has_words_of_depth() || rows.has_words_of_lines()) &&
           (columns.has_words_of_depth() || columns.has_words_of_lines()) && is_near(rows) && is_near(columns) &&
           apart % longlong(16 / sizeof(T)) == 0 && block.rows % kDepth == 0 && a.columns % block.rows == 0;
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
      const bool depth_a = rows.has_words_of_depth(), depth_b = columns.has_words_of_depth();
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
    if (c.column_stride == 1 && has_words(to, c.row_stride)) {
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
  // Of the stages the last is the first to be multiplied: only it may end before its depth does, and it is not fetched
  // in the loop.
  template <bool kDepthA, bool kDepthB>
  static TSL_INLINE void multiply_words(Sum (&sum)[kCount], const ProductOperand<T>& a, const ProductOperand<T>& b,
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

  // A list, without branches, so that this can stand between products: what it says of a block is read a block ahead.
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

  // Whether words that follow each other across memory are so near that an int counts those between them.
  static TSL_INLINE bool is_near(const ProductOperand<T>& operand) {
    const longlong pitch = operand.line_stride == 1 ? operand.depth_stride : operand.line_stride;
    const longlong words = pitch / longlong(16 / sizeof(T));
    return words == int(words);
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

  // Where store() puts an element in shared memory, with the words of a row permuted as those of operands are.
  static TSL_INLINE uint stored_at(uint row, uint column) {
    constexpr uint kOfWord = 16 / sizeof(T);
    const uint swizzle = sizeof(T) == 2 ? row & 7u : (row & 3u) * 2u;
    return row * uint(kColumns * sizeof(T)) + (column / kOfWord ^ swizzle) * 16u + column % kOfWord * uint(sizeof(T));
  }
};

}  // namespace tsl

#endif
