// Gradient primitives that the Slang view library names (slang/device.slang). A gradient view has its primal's element
// type and index space; where it is null or absent (nobody wants the gradient) everything here does nothing or gives zero.
//
// Sums happen in the element's own type: float16 and bfloat16 round at each addition, as an atomic addition must.
#pragma once

#include "prelude/atomics.h"
#include "prelude/views.h"

namespace tsl {

template <class T> struct IsScalar { static constexpr bool value = false; };
#define TSL_SCALAR(T) template <> struct IsScalar<T> { static constexpr bool value = true; };
TSL_SCALAR(float) TSL_SCALAR(double) TSL_SCALAR(__half) TSL_SCALAR(__nv_bfloat16)
TSL_SCALAR(bool) TSL_SCALAR(char) TSL_SCALAR(signed char) TSL_SCALAR(uchar) TSL_SCALAR(short) TSL_SCALAR(ushort)
TSL_SCALAR(int) TSL_SCALAR(uint) TSL_SCALAR(longlong) TSL_SCALAR(ulonglong)
#undef TSL_SCALAR

// Applies f(T* element, Leaf* part of it, Leaf& the same part of value) to each scalar of an element.
template <class T, class F>
TSL_INLINE void for_each_scalar(T* element, T& value, F f) {
  if constexpr (kIsVector<T>) {
    f(&element->x, value.x);
    if constexpr (Traits<T>::size >= 2) f(&element->y, value.y);
    if constexpr (Traits<T>::size >= 3) f(&element->z, value.z);
    if constexpr (Traits<T>::size >= 4) f(&element->w, value.w);
  } else {
    static_assert(IsScalar<T>::value, "a gradient's element must be a number, or a vector, matrix or array of numbers");
    f(element, value);
  }
}
template <class T, int R, int C, class F>
TSL_INLINE void for_each_scalar(Matrix<T, R, C>* element, Matrix<T, R, C>& value, F f) {
  for (int r = 0; r < R; ++r) for_each_scalar(&element->rows[r], value.rows[r], f);
}
template <class T, size_t N, class F>
TSL_INLINE void for_each_scalar(FixedArray<T, N>* element, FixedArray<T, N>& value, F f) {
  for (size_t i = 0; i < N; ++i) for_each_scalar(&element->m_data[i], value.m_data[i], f);
}

struct AddTo {
  template <class T> TSL_INLINE void operator()(T* place, T& amount) const { atomicAdd(place, amount); }
};
struct TakeFrom {
  template <class T> TSL_INLINE void operator()(T* place, T& taken) const { taken = atomicExch(place, T(0)); }
};

TSL_INLINE bool wanted(const TensorView& gradient) { return !gradient.absent && gradient.data != nullptr; }

}  // namespace tsl

template <class T, class Index>
TSL_INLINE void tsl_accumulate(TensorView gradient, Index index, T amount) {
  if (tsl::wanted(gradient)) tsl::for_each_scalar(gradient.data_ptr_at<T>(index), amount, tsl::AddTo{});
}

template <class T, class Index>
TSL_INLINE T tsl_take(TensorView gradient, Index index) {
  T taken{};
  if (tsl::wanted(gradient)) tsl::for_each_scalar(gradient.data_ptr_at<T>(index), taken, tsl::TakeFrom{});
  return taken;
}

template <class T, class Index>
TSL_INLINE void tsl_set(TensorView gradient, Index index, T amount) {
  if (tsl::wanted(gradient)) gradient.store<T>(index, amount);
}

template <class T, class Index>
TSL_INLINE T tsl_get(TensorView gradient, Index index) {
  return tsl::wanted(gradient) ? gradient.load<T>(index) : T{};
}
