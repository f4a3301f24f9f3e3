// Arrays and matrices as emitted text names them. A matrix is R rows, each a vector of C components; * is by component
// (Slang writes products out itself).
#pragma once

#include "prelude/local_index.h"
#include "prelude/vectors.h"

template <class T, size_t N>
struct FixedArray {
  T m_data[N];
  TSL_INLINE const T& operator[](size_t index) const { return m_data[index]; }
  TSL_INLINE T& operator[](size_t index) { return m_data[index]; }
#if TSL_LOCAL_INDICES
  template <class I> TSL_INLINE const T& operator[](tsl::Index<I> index) const { return m_data[tsl::inside(index, N)]; }
  template <class I> TSL_INLINE T& operator[](tsl::Index<I> index) { return m_data[tsl::inside(index, N)]; }
#endif
};

template <class T>
struct Array {
  T* data;
  size_t count;
  TSL_INLINE T& operator[](size_t index) const { return data[index]; }
#if TSL_LOCAL_INDICES
  template <class I> TSL_INLINE T& operator[](tsl::Index<I> index) const { return data[tsl::inside(index, count)]; }
#endif
};

template <class T, int R, int C>
struct Matrix {
  using Row = tsl::Vector<T, C>;
  tsl::Rows<Row, R> rows;
  TSL_INLINE const Row& operator[](size_t index) const { return rows[index]; }
  TSL_INLINE Row& operator[](size_t index) { return rows[index]; }
#if TSL_LOCAL_INDICES
  template <class I> TSL_INLINE const Row& operator[](tsl::Index<I> index) const { return rows[index]; }
  template <class I> TSL_INLINE Row& operator[](tsl::Index<I> index) { return rows[index]; }
#endif
};

// From one value for all.
template <class T, int R, int C>
TSL_INLINE Matrix<T, R, C> makeMatrix(T value) {
  Matrix<T, R, C> result;
  for (int r = 0; r < R; ++r) result.rows[r] = tsl::splat<tsl::Vector<T, C>>(value);
  return result;
}

// From a matrix of another size or type: the common part, the rest zero.
template <class T, int R, int C, class U, int R2, int C2>
TSL_INLINE Matrix<T, R, C> makeMatrix(const Matrix<U, R2, C2>& other) {
  Matrix<T, R, C> result{};
  for (int r = 0; r < R && r < R2; ++r) result.rows[r] = _slang_vector_reshape<T, C>(other.rows[r]);
  return result;
}

// From rows.
template <class T, int R, int C, class... Rows>
TSL_INLINE typename tsl::EnableIf<sizeof...(Rows) + 1 == R && (R * C != R), Matrix<T, R, C>>::type makeMatrix(
    tsl::Vector<T, C> first, Rows... rows) {
  return Matrix<T, R, C>{{first, rows...}};
}

// From components, row by row.
template <class T, int R, int C, class... Components>
TSL_INLINE typename tsl::EnableIf<sizeof...(Components) + 1 == R * C && (R * C > 1), Matrix<T, R, C>>::type makeMatrix(
    T first, Components... components) {
  const T values[] = {first, T(components)...};
  Matrix<T, R, C> result;
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) *_slang_vector_get_element_ptr(&result.rows[r], c) = values[r * C + c];
  return result;
}

#define TSL_MATRIX_BINARY(op, Result)                                                                        \
  template <class T, int R, int C>                                                                           \
  TSL_INLINE Matrix<Result, R, C> operator op(const Matrix<T, R, C>& left, const Matrix<T, R, C>& right) {   \
    Matrix<Result, R, C> result;                                                                             \
    for (int r = 0; r < R; ++r) result.rows[r] = left.rows[r] op right.rows[r];                              \
    return result;                                                                                           \
  }
TSL_MATRIX_BINARY(+, T)
TSL_MATRIX_BINARY(-, T)
TSL_MATRIX_BINARY(*, T)
TSL_MATRIX_BINARY(/, T)
TSL_MATRIX_BINARY(%, T)
TSL_MATRIX_BINARY(&, T)
TSL_MATRIX_BINARY(|, T)
TSL_MATRIX_BINARY(^, T)
TSL_MATRIX_BINARY(<<, T)
TSL_MATRIX_BINARY(>>, T)
TSL_MATRIX_BINARY(==, bool)
TSL_MATRIX_BINARY(!=, bool)
TSL_MATRIX_BINARY(<, bool)
TSL_MATRIX_BINARY(>, bool)
TSL_MATRIX_BINARY(<=, bool)
TSL_MATRIX_BINARY(>=, bool)
TSL_MATRIX_BINARY(&&, bool)
TSL_MATRIX_BINARY(||, bool)
#undef TSL_MATRIX_BINARY

#define TSL_MATRIX_UNARY(op, Result)                                                                         \
  template <class T, int R, int C>                                                                           \
  TSL_INLINE Matrix<Result, R, C> operator op(const Matrix<T, R, C>& value) {                                \
    Matrix<Result, R, C> result;                                                                             \
    for (int r = 0; r < R; ++r) result.rows[r] = op value.rows[r];                                           \
    return result;                                                                                           \
  }
TSL_MATRIX_UNARY(-, T)
TSL_MATRIX_UNARY(~, T)
TSL_MATRIX_UNARY(!, bool)
#undef TSL_MATRIX_UNARY

template <class T, int R, int C>
TSL_INLINE Matrix<T, R, C> _slang_select(const Matrix<bool, R, C>& condition, const Matrix<T, R, C>& yes,
                                         const Matrix<T, R, C>& no) {
  Matrix<T, R, C> result;
  for (int r = 0; r < R; ++r) result.rows[r] = _slang_select(condition.rows[r], yes.rows[r], no.rows[r]);
  return result;
}
