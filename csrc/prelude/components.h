// Walks over the numbers in a value: one for a scalar, each component of a vector, matrix or array of those.
#pragma once

#include "prelude/matrix.h"

namespace tsl {

template <class T> struct IsScalar { static constexpr bool value = false; };
#define TSL_SCALAR(T) template <> struct IsScalar<T> { static constexpr bool value = true; };
TSL_SCALAR(float) TSL_SCALAR(double) TSL_SCALAR(__half) TSL_SCALAR(__nv_bfloat16)
TSL_SCALAR(bool) TSL_SCALAR(char) TSL_SCALAR(signed char) TSL_SCALAR(uchar) TSL_SCALAR(short) TSL_SCALAR(ushort)
TSL_SCALAR(int) TSL_SCALAR(uint) TSL_SCALAR(longlong) TSL_SCALAR(ulonglong)
TSL_SCALAR(int64_t) TSL_SCALAR(uint64_t)
#undef TSL_SCALAR

// The type of the numbers that T is made of; void for a struct.
template <class T, bool kVector = kIsVector<T>, bool kNumber = IsScalar<T>::value> struct NumbersOf { using type = void; };
template <class T> struct NumbersOf<T, false, true> { using type = T; };
template <class T> struct NumbersOf<T, true, false> { using type = ElementOf<T>; };
template <class T, int R, int C> struct NumbersOf<Matrix<T, R, C>, false, false> { using type = T; };
template <class T, size_t N> struct NumbersOf<FixedArray<T, N>, false, false> { using type = typename NumbersOf<T>::type; };

// Applies f(Scalar* a part of *place, Scalar& the same part of value).
template <class T, class F>
TSL_INLINE void for_each_scalar(T* place, T& value, F f) {
  if constexpr (kIsVector<T>) {
    f(&place->x, value.x);
    if constexpr (Traits<T>::size >= 2) f(&place->y, value.y);
    if constexpr (Traits<T>::size >= 3) f(&place->z, value.z);
    if constexpr (Traits<T>::size >= 4) f(&place->w, value.w);
  } else {
    static_assert(IsScalar<T>::value, "this operation is for numbers, and for vectors, matrices and arrays of numbers");
    f(place, value);
  }
}
template <class T, int R, int C, class F>
TSL_INLINE void for_each_scalar(Matrix<T, R, C>* place, Matrix<T, R, C>& value, F f) {
  for (int r = 0; r < R; ++r) for_each_scalar(&place->rows[r], value.rows[r], f);
}
template <class T, size_t N, class F>
TSL_INLINE void for_each_scalar(FixedArray<T, N>* place, FixedArray<T, N>& value, F f) {
  for (size_t i = 0; i < N; ++i) for_each_scalar(&place->m_data[i], value.m_data[i], f);
}

// Adds to a gradient; emitted structs have tsl_add, of their fields.
template <class T> TSL_INLINE void add_to(T& sum, const T& value) {
  if constexpr (kIsVector<T> || IsScalar<T>::value) sum = sum + value;
  else sum.tsl_add(value);
}
template <class T, int R, int C> TSL_INLINE void add_to(Matrix<T, R, C>& sum, const Matrix<T, R, C>& value) {
  sum = sum + value;
}
template <class T, size_t N> TSL_INLINE void add_to(FixedArray<T, N>& sum, const FixedArray<T, N>& value) {
  for (size_t i = 0; i < N; ++i) add_to(sum.m_data[i], value.m_data[i]);
}

}  // namespace tsl
