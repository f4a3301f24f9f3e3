// A tile of a matrix product by plain multiplications and additions, for any GPU: float in full precision, double, and
// half and bfloat16 widened to float. Called by a block's 256 threads together, which keep the tile's sums in
// registers.
//
// Note [simt product]
//   Shared memory holds both operands depth by depth, lines next to each other ([k][m] and [k][n]), whatever their
//   layout in memory: one loop serves all. Where an operand's lines follow each other in memory, 16 bytes are copied at
//   once. Else elements are copied one by one, which transposes them on the way; a pitch of 16 bytes more than the tile
//   spreads the eight depths by four lines that a warp then writes over all banks, and costs the reads nothing.
//   The threads are a grid of 16 x 16, a warp 8 x 4. Which lanes are neighbours is chosen for the banks: a load of 16
//   bytes takes half the cycles if lanes i and i ^ 1, or i and i ^ 2, load the same for all i.
//   The barrier is one depth before the first load that needs it, so that the loads' latency is hidden by products.
#pragma once

#include "prelude/half.h"
#include "prelude/mma_matrix.h"

#if TSL_CUDA

namespace tsl {

// The share of a thread in bringing an operand into shared memory, kLines x kDepth of it at a time.
template <class T, class Sum, int kLines, int kDepth> struct SimtSource {
  static constexpr uint kOfVector = 16 / sizeof(Sum), kPitch = (kLines + kOfVector) * sizeof(Sum);  // bytes from depth to depth
  static constexpr uint kBytes = kPitch * kDepth;

  TSL_INLINE SimtSource(const ProductOperand<T>& operand, uint thread) : depth_(operand.depth) {
    constexpr bool kDirect = IsSame<T, Sum>::value;
    depth_stride_ = operand.depth_stride;
    uint line;
    if (kDirect && operand.has_vectors_of_lines()) {
      copy_ = kVectors;
      line = thread % kVectorsOfLine * kOfVector;
      at_ = thread / kVectorsOfLine;
      const uint left = operand.lines > line ? (operand.lines - line) * uint(sizeof(T)) : 0u;
      valid_ = left < 16u ? left : 16u;
      pass_ = kVectorDepths * depth_stride_;
    } else {
      const bool along_depth = depth_stride_ == 1, is_whole = operand.lines >= uint(kLines);
      copy_ = kDirect && along_depth && is_whole ? kWholeElements : kElements;
      const uint low = thread % 8u, high = thread / 8u;
      line = along_depth ? high : thread % 32u;
      at_ = along_depth ? low : thread / 32u;
      valid_ = operand.lines > line ? operand.lines - line : 0u;
      pass_ = 32 * operand.line_stride;
    }
    to_ = at_ * kPitch + line * uint(sizeof(Sum));
    from_ = operand.data + longlong(line) * operand.line_stride + longlong(at_) * depth_stride_;
  }

  // Copies the next kDepth depths to `to`.
  TSL_INLINE void fetch(uint to) {
    to += to_;
    if (copy_ == kVectors) {
#pragma unroll
      for (int i = 0; i < kDepth / kVectorDepths; ++i) {
        const bool is_inside = at_ + i * kVectorDepths < depth_;
        copy_to_shared<16>(to + i * kVectorDepths * kPitch, from_ + i * pass_, is_inside ? valid_ : 0u);
      }
    } else if (copy_ == kWholeElements && at_ - at_ % 8u + kDepth <= depth_) {
      const T* from = from_;
#pragma unroll
      for (int i = 0; i < kLines / 32; ++i, from += pass_) {
#pragma unroll
        for (int j = 0; j < kDepth / 8; ++j) {
          copy_element<true>(to + j * 8 * kPitch + i * 32 * sizeof(Sum), from + j * 8, true);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < kDepth / 8; ++j) {
        const T* from = from_ + j * 8 * depth_stride_;
        const uint left = at_ + j * 8 < depth_ ? (copy_ == kWholeElements ? uint(kLines) : valid_) : 0u;
#pragma unroll
        for (int i = 0; i < kLines / 32; ++i, from += pass_) {
          copy_element<false>(to + j * 8 * kPitch + i * 32 * sizeof(Sum), from, i * 32 < left);
        }
      }
    }
    from_ += kDepth * depth_stride_;
    at_ += kDepth;
  }

 private:
  enum Copy : uint { kVectors, kWholeElements, kElements };
  static constexpr uint kVectorsOfLine = kLines / kOfVector, kVectorDepths = 256 / kVectorsOfLine;
  static_assert(kDepth % kVectorDepths == 0 && kDepth % 8 == 0 && kLines % 32 == 0, "a copy is the same for all threads");

  template <bool kWhole> static TSL_INLINE void copy_element(uint to, const T* from, bool is_inside) {
    if constexpr (!IsSame<T, Sum>::value) {
      const float value = is_inside ? float(*from) : 0.0f;
      asm volatile("st.shared.f32 [%0], %1;" : : "r"(to), "f"(value) : "memory");
    } else if constexpr (kWhole) {
      copy_to_shared<sizeof(T)>(to, from);
    } else {
      copy_to_shared<sizeof(T)>(to, from, is_inside ? uint(sizeof(T)) : 0u);
    }
  }

  const T* from_;
  longlong depth_stride_, pass_;  // pass_: from one copy to the next, along the depth for vectors, else along the lines
  uint copy_, to_, at_, depth_;  // at_: the depth of the thread's next copy
  uint valid_;  // bytes of a vector, or lines from the thread's first on
};

// kReceived: bytes of shared memory that the tile needs besides.
template <class T, int kRows, int kColumns, uint kReceived = 0> struct SimtProduct {
  using Sum = typename Choose<IsSame<T, double>::value, double, float>::type;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;

 private:
  // The loop over a stage is unrolled and must stay in the instruction cache.
  static constexpr int kDepth = sizeof(Sum) == 8 || kCount > 64 ? 8 : 16, kStages = 3;
  // Products go by strips of so many rows: of the orders that were tried, those for which the assembler finds registers
  // in different banks (see multiply_depth).
  static constexpr int kStrip = sizeof(Sum) == 8 || kCount > 64 ? 1 : 4;
  static constexpr int kOfVector = 16 / sizeof(Sum);  // sums along a row, and rows, that a thread has next to each other
  static constexpr int kOwnRows = kRows / 16, kOwnColumns = kColumns / 16;
  static_assert(kOwnRows % kOfVector == 0 && kOwnColumns % kOfVector == 0, "a thread's part of a tile is made of vectors of 16 bytes");
  using SourceA = SimtSource<T, Sum, kRows, kDepth>;
  using SourceB = SimtSource<T, Sum, kColumns, kDepth>;
  static constexpr uint kStage = SourceA::kBytes + SourceB::kBytes;
  // Where shared memory has room for them, floats are summed by so many (by half as many in short products), and these sums
  // put aside and summed: of a long product the error is then that of the square root of its length.
  static constexpr uint kSummed = 512, kTotalBytes = kRows * kColumns * sizeof(Sum);
  static constexpr uint kRoom = __CUDA_ARCH__ == 800 ? 163 : __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200 ? 227 : 64;
  static constexpr bool kPutsAside =
      IsSame<Sum, float>::value && kStages * kStage + kTotalBytes + kReceived <= kRoom * 1024 - 256;

  // The warp's grid is 2 x 4, the lanes' 8 x 4.
  static TSL_INLINE uint lane_row(uint thread) { return (thread >> 1 & 1u) | (thread >> 2 & 6u); }
  static TSL_INLINE uint lane_column(uint thread) { return (thread & 1u) | (thread >> 1 & 2u); }
  static TSL_INLINE uint first_row(uint thread) { return thread / 128u * (kRows / 2) + lane_row(thread) * kOfVector; }
  static TSL_INLINE uint first_column(uint thread) {
    return thread / 32u % 4u * (kColumns / 4) + lane_column(thread) * kOfVector;
  }
  static TSL_INLINE constexpr int own_row(int i) { return i / kOfVector * (8 * kOfVector) + i % kOfVector; }
  static TSL_INLINE constexpr int own_column(int j) { return j / kOfVector * (4 * kOfVector) + j % kOfVector; }

 public:
  static constexpr int kSharedBytes = kStages * kStage + (kPutsAside ? kTotalBytes : 0);

  static TSL_INLINE uint row(uint thread, int i) { return first_row(thread) + own_row(i / kOwnColumns); }
  static TSL_INLINE uint column(uint thread, int i) { return first_column(thread) + own_column(i % kOwnColumns); }

  // Asks for all stages but one, and waits for the first. Gives the depths that were asked for.
  static TSL_INLINE uint fetch_first(SourceA& source_a, SourceB& source_b, uint base, uint depth) {
    uint fetched = 0;
#pragma unroll 1
    for (uint stage = 0; stage < kStages - 1; ++stage, fetched += kDepth) {
      if (fetched < depth) {
        source_a.fetch(base + stage * kStage);
        source_b.fetch(base + stage * kStage + SourceA::kBytes);
      }
      end_copies();
    }
    wait_for_copies<kStages - 2>();
    meet_in_tile();
    return fetched;
  }

  // Begins without a barrier: `shared` must be free. Ends with one.
  static TSL_INLINE void multiply(Sum (&sum)[kCount], Matrix<const T> a, Matrix<const T> b, uint row, uint column,
                                  unsigned char* shared, uint thread) {
    SourceA source_a(ProductOperand<T>::of_rows(a, row), thread);
    SourceB source_b(ProductOperand<T>::of_columns(b, column), thread);
    const uint base = shared_address(shared);
    const uint from_a = first_row(thread) * uint(sizeof(Sum));
    const uint from_b = SourceA::kBytes + first_column(thread) * uint(sizeof(Sum));
    const uint depth = a.columns;
    uint fetched = fetch_first(source_a, source_b, base, depth);  // depths that were asked for

    Sum x[2][kOwnRows], y[2][kOwnColumns];
    uint now = base, next = base + kStage, free = base + (kStages - 1) * kStage;
    load<kOwnRows, 8>(x[0], now + from_a);
    load<kOwnColumns, 4>(y[0], now + from_b);
    const uint totals = base + kStages * kStage + thread * 16;
    const uint summed = depth <= 2 * kSummed ? kSummed / 2 : kSummed;
    uint aside = summed;  // the depth whose sums are put aside next
#pragma unroll 1
    for (uint done = 0; done < depth; done += kDepth, fetched += kDepth) {
      if constexpr (kPutsAside) {
        if (done == aside) {
          put_aside(sum, totals, aside > summed);
          aside += summed;
        }
      }
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const uint stage = k + 1 < kDepth ? now : next;
        const int ahead = (k + 1) % kDepth;
        load<kOwnRows, 8>(x[(k + 1) % 2], stage + from_a + ahead * SourceA::kPitch);
        load<kOwnColumns, 4>(y[(k + 1) % 2], stage + from_b + ahead * SourceB::kPitch);
        if (k == 0) {
          if (fetched < depth) {
            source_a.fetch(free);
            source_b.fetch(free + SourceA::kBytes);
          }
          end_copies();
        }
        if (k == kDepth - 2) {  // all loads of this stage are issued: behind the barrier it may be written again
          wait_for_copies<kStages - 2>();
          meet_in_tile();
        }
        multiply_depth(sum, x[k % 2], y[k % 2]);
      }
      free = now;
      now = next;
      next = next + kStage == base + kStages * kStage ? base : next + kStage;
    }
    if constexpr (kPutsAside) {
      if (aside > summed) take_back(sum, totals);
    }
    wait_for_copies<0>();
    meet_in_tile();
  }

  // Uses no shared memory.
  static TSL_INLINE void store(const Sum (&sum)[kCount], Matrix<T> c, uint row, uint column, unsigned char*,
                               uint thread) {
    row += first_row(thread);
    column += first_column(thread);
    const uint rows = row < c.rows ? c.rows - row : 0u, columns = column < c.columns ? c.columns - column : 0u;
    T* to = c.data + longlong(row) * c.row_stride + longlong(column) * c.column_stride;
    if (c.row_stride == 1) store_lines<false>(sum, to, c.column_stride, 1, columns, rows);
    else store_lines<true>(sum, to, c.row_stride, c.column_stride, rows, columns);
  }

 private:
  // In a strip up one column and down the next one, so that operands are used again at once.
  static TSL_INLINE void multiply_depth(Sum (&sum)[kCount], const Sum (&x)[kOwnRows], const Sum (&y)[kOwnColumns]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int strip = n / (kStrip * kOwnColumns), column = n / kStrip % kOwnColumns, row = n % kStrip;
      const int i = strip * kStrip + (column % 2 ? kStrip - 1 - row : row);
      const int j = kStrip > 1 && strip % 2 ? kOwnColumns - 1 - column : column;
      sum[i * kOwnColumns + j] = multiply_add(x[i], y[j], sum[i * kOwnColumns + j]);
    }
  }

  // A thread's totals are vectors, 256 of them apart.
  static TSL_INLINE void put_aside(Sum (&sum)[kCount], uint totals, bool has_some) {
    if (has_some) take_back(sum, totals);
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(totals + i * 1024), "f"(sum[i]),
                   "f"(sum[i + 1]), "f"(sum[i + 2]), "f"(sum[i + 3])
                   : "memory");
    }
#pragma unroll
    for (Sum& one : sum) one = Sum(0);
  }
  static TSL_INLINE void take_back(Sum (&sum)[kCount], uint totals) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      Sum total[4];
      load<4, 1>(total, totals + i * 1024);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[i + k] += total[k];
    }
  }

  static TSL_INLINE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
  static TSL_INLINE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

  // kCount elements in vectors, kStride vectors apart.
  template <int kOwn, int kStride> static TSL_INLINE void load(Sum (&to)[kOwn], uint from) {
#pragma unroll
    for (int i = 0; i < kOwn / kOfVector; ++i) {
      const uint vector = from + i * kStride * 16;
      if constexpr (kOfVector == 4) {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[4 * i]), "=f"(to[4 * i + 1]), "=f"(to[4 * i + 2]), "=f"(to[4 * i + 3])
                     : "r"(vector) : "memory");
      } else {
        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(to[2 * i]), "=d"(to[2 * i + 1]) : "r"(vector) : "memory");
      }
    }
  }

  // A line is a row, or a column if elements of columns follow each other.
  template <bool kIsRow>
  static TSL_INLINE void store_lines(const Sum (&sum)[kCount], T* to, longlong line_stride, longlong stride, uint lines,
                                     uint length) {
    constexpr int kOwnLines = kIsRow ? kOwnRows : kOwnColumns, kLength = kIsRow ? kOwnColumns : kOwnRows;
    const bool by_vectors = IsSame<T, Sum>::value && stride == 1 && has_vectors(to, line_stride);
#pragma unroll
    for (int line = 0; line < kOwnLines; ++line) {
      const uint from_line = kIsRow ? own_row(line) : own_column(line);
      if (from_line >= lines) continue;
      T* const place = to + longlong(from_line) * line_stride;
#pragma unroll
      for (int first = 0; first < kLength; first += kOfVector) {
        const uint from = kIsRow ? own_column(first) : own_row(first);
        if (by_vectors && from + kOfVector <= length) {
          struct alignas(16) Access { Sum number[kOfVector]; } vector;
#pragma unroll
          for (int i = 0; i < kOfVector; ++i) vector.number[i] = sum_of<kIsRow>(sum, line, first + i);
          *reinterpret_cast<Access*>(place + from) = vector;
        } else {
#pragma unroll
          for (int i = 0; i < kOfVector; ++i) {
            if (from + i < length) place[longlong(from + i) * stride] = T(sum_of<kIsRow>(sum, line, first + i));
          }
        }
      }
    }
  }
  template <bool kIsRow> static TSL_INLINE Sum sum_of(const Sum (&sum)[kCount], int line, int i) {
    return kIsRow ? sum[line * kOwnColumns + i] : sum[i * kOwnColumns + line];
  }
};

}  // namespace tsl

#endif
