// Products of tiles on the host: the block's first thread makes the whole tile, and each takes its share of it.
//
// Note [host tiles]
//   What a CPU wants is packed panels and a micro-tile of sums that fills its vector registers, not 256 threads with a
//   sixty-fourth of a tile each. The threads of a block run one after the other on one thread of the pool, so the first to
//   come to a product does all of it; the others find it done. A thread's share is a piece of a row.
#pragma once

#include "prelude/mma_matrix.h"

#if !TSL_CUDA

namespace tsl {

template <class Sum> struct HostVector {
#if defined(__AVX512F__)
  static constexpr int kBytes = 64, kRows = 12;  // of a micro-tile: 24 of 32 registers hold sums
#elif defined(__AVX__)
  static constexpr int kBytes = 32, kRows = 6;  // 12 of 16
#else
  static constexpr int kBytes = 16, kRows = 6;
#endif
  static constexpr int kLength = kBytes / int(sizeof(Sum));
  typedef Sum Type __attribute__((vector_size(kBytes)));
};

// What a tile is made in.
template <class T, class Sum, int kRows, int kColumns>
struct HostTile {
  using Vector = typename HostVector<Sum>::Type;
  static constexpr int kHeight = HostVector<Sum>::kRows, kLength = HostVector<Sum>::kLength, kWidth = 2 * kLength;
  static constexpr int kDepth = 128;  // steps along K that are packed at a time
  static constexpr int kPanelsA = (kRows + kHeight - 1) / kHeight, kPanelsB = (kColumns + kWidth - 1) / kWidth;

  alignas(64) Sum a[kPanelsA * kDepth * kHeight];  // panels of [step][row]
  alignas(64) Sum b[kPanelsB * kDepth * kWidth];   // panels of [step][column]

  // from(r, k) for r below `count`, in panels of `kExtent` rows; elements outside are zero.
  template <int kExtent>
  static __attribute__((noinline)) void pack(Sum* to, Matrix<const T> from, uint first, int count, uint k, int depth) {
    const longlong row = from.row_stride, step = from.column_stride;
    const T* corner = from.data + longlong(first) * row + longlong(k) * step;
    for (int panel = 0; panel < count; panel += kExtent, to += kDepth * kExtent) {
      const int here = count - panel < kExtent ? count - panel : kExtent;
      const T* base = corner + panel * row;
      if (row == 1 && here == kExtent) {
        for (int s = 0; s < depth; ++s) {
          for (int r = 0; r < kExtent; ++r) to[s * kExtent + r] = Sum(base[s * step + r]);
        }
      } else if (step == 1) {
        for (int r = 0; r < here; ++r) {
          for (int s = 0; s < depth; ++s) to[s * kExtent + r] = Sum(base[r * row + s]);
        }
      } else {
        for (int s = 0; s < depth; ++s) {
          for (int r = 0; r < here; ++r) to[s * kExtent + r] = Sum(base[r * row + s * step]);
        }
      }
      for (int s = 0; s < depth; ++s) {
        for (int r = here; r < kExtent; ++r) to[s * kExtent + r] = Sum(0);
      }
    }
  }

  static TSL_INLINE int least(uint there, int most) { return there < uint(most) ? int(there) : most; }

  static TSL_INLINE void micro_tile(Sum* to, const Sum* a, const Sum* b, int depth, int rows, int columns) {
    Vector sum[kHeight][2] = {};
    for (int s = 0; s < depth; ++s) {
      const Vector left = *reinterpret_cast<const Vector*>(b + s * kWidth);
      const Vector right = *reinterpret_cast<const Vector*>(b + s * kWidth + kLength);
#pragma GCC unroll 16
      for (int r = 0; r < kHeight; ++r) {
        const Sum factor = a[s * kHeight + r];
        sum[r][0] += factor * left;
        sum[r][1] += factor * right;
      }
    }
    const Sum* from = reinterpret_cast<const Sum*>(sum);
    if (columns == kWidth) {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < kWidth; ++c) to[r * kColumns + c] += from[r * kWidth + c];
      }
    } else {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) to[r * kColumns + c] += from[r * kWidth + c];
      }
    }
  }

  // sums: the tile's rows, one after the other, as far as x has them.
  __attribute__((noinline)) void add_product(Sum* sums, Matrix<const T> x, Matrix<const T> y, uint row, uint column) {
    const int rows = row < x.rows ? least(x.rows - row, kRows) : 0;
    const int columns = column < y.columns ? least(y.columns - column, kColumns) : 0;
    if (rows == 0 || columns == 0) return;
    const Matrix<const T> turned{y.data, y.column_stride, y.row_stride, y.columns, y.rows};
    for (uint k = 0; k < x.columns; k += kDepth) {
      const int depth = least(x.columns - k, kDepth);
      pack<kHeight>(a, x, row, rows, k, depth);
      pack<kWidth>(b, turned, column, columns, k, depth);
      for (int c = 0; c < columns; c += kWidth) {
        for (int r = 0; r < rows; r += kHeight) {
          micro_tile(sums + r * kColumns + c, a + r * kDepth, b + c * kDepth, depth, rows - r < kHeight ? rows - r : kHeight,
                     columns - c < kWidth ? columns - c : kWidth);
        }
      }
    }
  }
};

// Memory that stays with a thread of the pool until the library goes. Not from `new`: a compiler that links C++'s own library
// statically would put it into each kernel, and what it allocates for itself nobody frees.
extern "C" {
void* aligned_alloc(size_t alignment, size_t size) noexcept;
void free(void* memory) noexcept;
}
struct alignas(64) Kept {
  Kept* next;
};
static Kept* all_kept = nullptr;

template <class M>
M* keep(size_t count) {
  static_assert(alignof(M) <= alignof(Kept));
  const size_t bytes = (count * sizeof(M) + alignof(Kept) - 1) / alignof(Kept) * alignof(Kept);
  Kept* const kept = static_cast<Kept*>(aligned_alloc(alignof(Kept), sizeof(Kept) + bytes));
  if (kept == nullptr) __builtin_abort();
  kept->next = __atomic_load_n(&all_kept, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&all_kept, &kept->next, kept, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
  return reinterpret_cast<M*>(kept + 1);
}

template <class T, int kRows, int kColumns>
struct HostProduct {
  using Sum = typename Choose<IsSame<T, double>::value, double, float>::type;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;
  static_assert(kColumns % kCount == 0, "a thread's share is a piece of a row");

  static TSL_INLINE uint row(uint thread, int i) { return (thread * kCount + i) / kColumns; }
  static TSL_INLINE uint column(uint thread, int i) { return thread * kCount % kColumns + i; }

  // Of `rows` rows the tile has those from `first` on. `number` counts the products that a thread has made in this tile.
  // add(tile, sums): makes one.
  template <class Add>
  static TSL_INLINE void multiply(Sum* sums, uint first, uint rows, uint thread, uint number, const Add& add) {
    constexpr uint kMost = 64;  // products that are kept: of more, each thread makes the rest anew
    using Tile = HostTile<T, Sum, kRows, kColumns>;
    static thread_local Tile* tile = nullptr;
    static thread_local Sum* made[kMost] = {};
    Sum*& product = made[number < kMost ? number : kMost - 1];
    if (tile == nullptr) tile = keep<Tile>(1);
    if (product == nullptr) product = keep<Sum>(kRows * kColumns);
    if (first + row(thread, 0) >= rows) return;
    if (thread == 0 || number >= kMost - 1) {
      for (int i = 0; i < Tile::least(rows - first, kRows) * kColumns; ++i) product[i] = Sum(0);
      add(*tile, product);
    }
    for (int i = 0; i < kCount; ++i) sums[i] += product[thread * kCount + i];
  }
};

}  // namespace tsl

// The kept memory goes with the library, if no kernel holds that any more: at the process's end threads may still run.
static int tsl_holders = 0;
extern "C" __attribute__((visibility("default"))) void tsl_hold(int change) {
  __atomic_fetch_add(&tsl_holders, change, __ATOMIC_ACQ_REL);
}
__attribute__((destructor)) static void tsl_drop_kept() {
  while (tsl_holders == 0 && tsl::all_kept) {
    tsl::Kept* const kept = tsl::all_kept;
    tsl::all_kept = kept->next;
    tsl::free(kept);
  }
}

#endif
