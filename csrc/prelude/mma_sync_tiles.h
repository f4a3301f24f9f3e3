// Operands of a tile in shared memory, as the tensor cores of compute capability 8.0 take them: how they come there, and how fragments
// of them are loaded (Note [sync product] in mma_sync.h).
#pragma once

#include "prelude/half.h"
#include "prelude/mma_matrix.h"

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
  static constexpr uint kLines = kLines_, kSize = sizeof(T), kDepth = kDepthBytes / kSize, kOfVector = 16 / kSize;
  static constexpr uint kRuns = kAlongDepth ? kLines : kDepth;  // runs of elements that follow each other
  static constexpr uint kPitch = kAlongDepth ? kDepthBytes : padded_lines(kLines) * kSize, kVectors = kPitch / 16;
  static_assert(kVectors >= (kAlongDepth ? 4 : 8), "a swizzle permutes within a run");

  static TSL_INLINE uint swizzle(uint run) {
    if constexpr (kVectors == 4) return run >> 1 & 3u;  // two runs are a line of all banks
    else if constexpr (!kAlongDepth && kSize == 4) return (run & 3u) * 2u;  // single words are read: 8 lines, 4 depths
    else return run & 7u;
  }
};

// The share of a thread in bringing an operand into shared memory, 16 bytes at a time. A thread stays at one vector of
// runs whose numbers differ by a multiple of 8, so that addresses move by constants.
template <class Tile> struct SyncSource {
  using T = typename Tile::Element;
  static constexpr bool kAlongDepth = Tile::kAlongDepth;

  TSL_INLINE SyncSource(const ProductOperand<T>& operand, uint thread) {
    const uint run = thread / Tile::kVectors, vector = thread % Tile::kVectors, first = vector * Tile::kOfVector;
    const uint line = kAlongDepth ? run : first, depth = kAlongDepth ? first : run;
    to_ = run * Tile::kPitch + (vector ^ Tile::swizzle(run)) * 16u;
    pitch_ = int((kAlongDepth ? operand.line_stride : operand.depth_stride) / Tile::kOfVector);
    left_ = operand.lines > line && line < Tile::kLines ? operand.lines - line : 0u;
    if (!kAlongDepth) left_ = bytes(left_);
    from_ = reinterpret_cast<const unsigned char*>(operand.data + longlong(line) * operand.line_stride +
                                                   longlong(depth) * operand.depth_stride);
  }

  // Copies the last stage, from depth `first` on; behind the end, zeros.
  TSL_INLINE void fetch_last(uint to, uint first, uint depth, uint thread) const {
    const unsigned char* from = from_ + longlong(first) * (kAlongDepth ? longlong(sizeof(T)) : longlong(pitch_) * 16);
    const uint at = first + (kAlongDepth ? thread % Tile::kVectors * Tile::kOfVector : thread / Tile::kVectors);
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
  static constexpr uint kPass = 256 / Tile::kVectors;  // runs that the block copies at once
  static constexpr int kCopies = Tile::kRuns / kPass;
  static_assert(Tile::kRuns % kPass == 0 && kPass % (Tile::kSize == 4 ? 4 : 8) == 0, "passes have equal swizzles");

  static TSL_INLINE uint bytes(uint elements) { return elements < Tile::kOfVector ? elements * Tile::kSize : 16u; }
  TSL_INLINE void copy(uint to, int pass, const unsigned char* from, uint valid) const {
    copy_to_shared<16>(to + to_ + pass * kPass * Tile::kPitch, from + longlong(pitch_) * int(pass * kPass * 16), valid);
  }

  const unsigned char* from_;
  int pitch_;  // from run to run, in vectors
  uint to_;
  uint left_;  // lines from the thread's first on, or bytes of each vector, along the lines
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

  // Of unit number i: lines a multiple of 8 apart have equal swizzles, and units along the depth are vectors apart.
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
// kIsRight: the order of b's, whose first two registers are of the first eight lines; a's alternate.
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

}  // namespace tsl

#endif
