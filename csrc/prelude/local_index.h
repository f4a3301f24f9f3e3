// Indices of emitted text into arrays (group-shared ones too), vectors and the rows of matrices: all that is not a view.
//
// Note [local indices]
//   Compiled with checks, an index of emitted text carries the thread whose it is (TSL_INDEX). One that is outside is reported as
//   the launch's first fault (checks.h), and the first element stands in for the one that is not there. What the
//   compiler knows to be inside costs nothing, as with views.
// Note [speculated indices]
//   In the text of a second derivative Slang may take an element before the branch that says whether to, and gives it zero for
//   its gradient where not: `if (i < 3) return v[i] * x; return x;`. So there an index that is outside is no fault, and on a
//   GPU too the first element stands in, since a gradient is stored there. What the user indexes wrongly is reported by
//   the kernel's forward and its backward, which run before.
#pragma once

#include "prelude/target.h"

namespace tsl {

struct ThreadBase;

#if TSL_LOCAL_INDICES

enum LocalKind { kArray, kRows, kComponents, kView };

// In other places than those below it is the number that it holds.
template <class I> struct Index {
  I value;
  const ThreadBase* thread;
  TSL_INLINE constexpr operator I() const { return value; }
};
template <class I> TSL_INLINE constexpr Index<I> index_of(const ThreadBase* thread, I value) { return {value, thread}; }

#if TSL_CHECKS
TSL_INLINE void report_local(const ThreadBase* thread, LocalKind kind, longlong index, size_t count);  // checks.h
#endif

template <LocalKind kKind = kArray, class I> TSL_INLINE size_t inside(Index<I> index, size_t count) {
  if (ulonglong(index.value) < count) return size_t(index.value);
#if TSL_CHECKS && !TSL_SPECULATES
  report_local(index.thread, kKind, longlong(index.value), count);
#endif
  return 0;
}

// The rows of a matrix, which emitted text names by `rows[i]` and `rows + (i)`.
template <class Row, int R> struct Rows {
  Row m_data[R];
  TSL_INLINE const Row& operator[](size_t index) const { return m_data[index]; }
  TSL_INLINE Row& operator[](size_t index) { return m_data[index]; }
  template <class I> TSL_INLINE const Row& operator[](Index<I> index) const { return m_data[inside<kRows>(index, R)]; }
  template <class I> TSL_INLINE Row& operator[](Index<I> index) { return m_data[inside<kRows>(index, R)]; }
  TSL_INLINE const Row* operator+(size_t index) const { return m_data + index; }
  TSL_INLINE Row* operator+(size_t index) { return m_data + index; }
  template <class I> TSL_INLINE const Row* operator+(Index<I> index) const { return m_data + inside<kRows>(index, R); }
  template <class I> TSL_INLINE Row* operator+(Index<I> index) { return m_data + inside<kRows>(index, R); }
};

#define TSL_INDEX(...) tsl::index_of(this, __VA_ARGS__)
#else
template <class Row, int R> using Rows = Row[R];
#define TSL_INDEX(...) (__VA_ARGS__)
#endif

#if TSL_CHECKS
// An index of a view, which has 32 bits. What does not fit is outside all views, and so is what stands for it.
template <class I> TSL_INLINE uint view_index(const ThreadBase* thread, I index) {
  if constexpr (sizeof(I) > sizeof(uint)) {
    if (ulonglong(index) > 0xffffffffull) {
      report_local(thread, kView, longlong(index), 0);
      return 0xffffffffu;
    }
  }
  return uint(index);
}

#define TSL_VIEW_INDEX(...) tsl::view_index(this, __VA_ARGS__)
#else
#define TSL_VIEW_INDEX(...) uint(__VA_ARGS__)
#endif

}  // namespace tsl
