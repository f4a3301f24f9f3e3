// Matrices of products, and how the products of this folder bring them into shared memory: asynchronous copies from
// compute capability 8.0 on, loads and stores before.
#pragma once

#include "prelude/target.h"

namespace tsl {

// A matrix in memory: element (r, c) at data[r * row_stride + c * column_stride]. Strides are in elements, any value
// (0, negative, neither 1).
template <class T> struct Matrix { T* data; long long row_stride, column_stride; uint rows, columns; };

#if TSL_CUDA

// Whether 16 bytes can be moved at once from `data` on, and at every multiple of the pitch from there.
template <class T> TSL_INLINE bool has_vectors(const T* data, longlong pitch) {
  return ((reinterpret_cast<ulonglong>(data) | ulonglong(pitch) * sizeof(T)) & 15u) == 0u;
}

// An operand of a tile as both sides of a product see it: lines (rows of a, columns of b), each with `depth` elements,
// from the tile's first line on. The result is a sum over the depth.
template <class T> struct ProductOperand {
  const T* data;  // of the first line of the tile
  longlong line_stride, depth_stride;
  uint lines, depth;  // lines that are left from the tile's first on

  static TSL_INLINE ProductOperand of_rows(const Matrix<const T>& a, uint row) {
    return {a.data + longlong(row) * a.row_stride, a.row_stride, a.column_stride,
            row < a.rows ? a.rows - row : 0u, a.columns};
  }
  static TSL_INLINE ProductOperand of_columns(const Matrix<const T>& b, uint column) {
    return {b.data + longlong(column) * b.column_stride, b.column_stride, b.row_stride,
            column < b.columns ? b.columns - column : 0u, b.rows};
  }

  // Whether 16 bytes can be copied at once, along the depth or along the lines.
  TSL_INLINE bool has_vectors_of_depth() const { return depth_stride == 1 && is_aligned(line_stride); }
  TSL_INLINE bool has_vectors_of_lines() const { return line_stride == 1 && is_aligned(depth_stride); }

 private:
  // As has_vectors, written out: with a call here the assembler allots registers of mma_sync.h's loops another way.
  TSL_INLINE bool is_aligned(longlong pitch) const {
    return ((reinterpret_cast<ulonglong>(data) | ulonglong(pitch) * sizeof(T)) & 15u) == 0u;
  }
};

// The same number, from which the compiler cannot follow anything beforehand.
TSL_INLINE uint hidden(uint number) {
  asm volatile("" : "+r"(number));
  return number;
}

// The number of a thread's warp, the same for all of it, as the compiler can see.
TSL_INLINE uint warp_of(uint thread) { return __shfl_sync(0xffffffffu, thread / 32, 0); }

// A barrier of the 256 threads that make a tile. A block may have others, which fetch.
TSL_INLINE void meet_in_tile() { asm volatile("bar.sync 8, 256;" : : : "memory"); }

TSL_INLINE uint shared_address(const void* shared) { return uint(__cvta_generic_to_shared(shared)); }

// Copies kBytes, 4, 8 or 16, to shared memory; only the first `valid` are read, and zeros are written for the others.
// Complete for the thread after wait_for_copies, for the block after a barrier behind that.
template <int kBytes> TSL_INLINE void copy_to_shared(uint to, const void* from, uint valid) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 : : "r"(to), "l"(from), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(to), "l"(from), "n"(kBytes), "r"(valid) : "memory");
  }
#else
  for (int i = 0; i < kBytes / 4; ++i) {
    const uint word = 4u * i < valid ? static_cast<const uint*>(from)[i] : 0u;
    asm volatile("st.shared.b32 [%0], %1;" : : "r"(to + 4u * i), "r"(word) : "memory");
  }
#endif
}

// All of it.
template <int kBytes> TSL_INLINE void copy_to_shared(uint to, const void* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(to), "l"(from), "n"(kBytes) : "memory");
  }
#else
  copy_to_shared<kBytes>(to, from, kBytes);
#endif
}

// The copies since the last call are a group, perhaps an empty one. Waits for all but the last kPending groups.
TSL_INLINE void end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
template <int kPending> TSL_INLINE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
#endif
}

#endif

}  // namespace tsl
