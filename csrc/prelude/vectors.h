// Operators on vectors, by component, for every vector type at once; and the functions through which emitted text reaches
// components by index, reshapes and selects. Comparisons and logical operators give bool vectors.
#pragma once

#include "prelude/division.h"
#include "prelude/types.h"

namespace tsl {

// R{f(components of each argument)...}: R is any vector type with the arguments' number of components.
template <class R, class F, class V>
TSL_INLINE R map(F f, V a) {
  if constexpr (Traits<V>::size == 1) return R{f(a.x)};
  else if constexpr (Traits<V>::size == 2) return R{f(a.x), f(a.y)};
  else if constexpr (Traits<V>::size == 3) return R{f(a.x), f(a.y), f(a.z)};
  else return R{f(a.x), f(a.y), f(a.z), f(a.w)};
}

template <class R, class F, class V, class W>
TSL_INLINE R map(F f, V a, W b) {
  if constexpr (Traits<V>::size == 1) return R{f(a.x, b.x)};
  else if constexpr (Traits<V>::size == 2) return R{f(a.x, b.x), f(a.y, b.y)};
  else if constexpr (Traits<V>::size == 3) return R{f(a.x, b.x), f(a.y, b.y), f(a.z, b.z)};
  else return R{f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
}

template <class V> TSL_INLINE V splat(typename Traits<V>::Element s) {
  if constexpr (Traits<V>::size == 1) return V{s};
  else if constexpr (Traits<V>::size == 2) return V{s, s};
  else if constexpr (Traits<V>::size == 3) return V{s, s, s};
  else return V{s, s, s, s};
}

template <class V, class T = V> using IfVector = typename EnableIf<(Traits<V>::size > 0), T>::type;
template <class V> using BoolVector = Vector<bool, Traits<V>::size>;
template <class V> using ElementOf = typename Traits<V>::Element;

TSL_INLINE float remainder_of(float a, float b);  // math_scalar.h
TSL_INLINE double remainder_of(double a, double b);
TSL_INLINE __half remainder_of(__half a, __half b);
template <class T> TSL_INLINE T remainder_of(T a, T b) { return T(remainder(a, b)); }

}  // namespace tsl

#define TSL_ARITHMETIC(op, expression)                                                                       \
  template <class V> TSL_INLINE tsl::IfVector<V> operator op(V left, V right) {                              \
    using T = tsl::ElementOf<V>;                                                                             \
    return tsl::map<V>([](T a, T b) { return T(expression); }, left, right);                                 \
  }                                                                                                          \
  template <class V> TSL_INLINE tsl::IfVector<V> operator op(V left, tsl::ElementOf<V> right) {              \
    return left op tsl::splat<V>(right);                                                                     \
  }                                                                                                          \
  template <class V> TSL_INLINE tsl::IfVector<V> operator op(tsl::ElementOf<V> left, V right) {              \
    return tsl::splat<V>(left) op right;                                                                     \
  }                                                                                                          \
  template <class V> TSL_INLINE tsl::IfVector<V, V&> operator op##=(V& left, V right) {                      \
    return left = left op right;                                                                             \
  }
TSL_ARITHMETIC(+, a + b)
TSL_ARITHMETIC(-, a - b)
TSL_ARITHMETIC(*, a * b)
TSL_ARITHMETIC(/, tsl::divide(a, b))
TSL_ARITHMETIC(%, tsl::remainder_of(a, b))
TSL_ARITHMETIC(&, a & b)
TSL_ARITHMETIC(|, a | b)
TSL_ARITHMETIC(^, a ^ b)
#undef TSL_ARITHMETIC

#define TSL_SHIFT(op)                                                                                        \
  template <class V, class W> TSL_INLINE tsl::IfVector<V, tsl::IfVector<W, V>> operator op(V left, W right) { \
    using T = tsl::ElementOf<V>;                                                                             \
    return tsl::map<V>([](T a, tsl::ElementOf<W> b) { return T(a op b); }, left, right);                     \
  }
TSL_SHIFT(<<)
TSL_SHIFT(>>)
#undef TSL_SHIFT

#define TSL_COMPARISON(op)                                                                                   \
  template <class V> TSL_INLINE tsl::IfVector<V, tsl::BoolVector<V>> operator op(V left, V right) {          \
    using T = tsl::ElementOf<V>;                                                                             \
    return tsl::map<tsl::BoolVector<V>>([](T a, T b) { return bool(a op b); }, left, right);                 \
  }
TSL_COMPARISON(==)
TSL_COMPARISON(!=)
TSL_COMPARISON(<)
TSL_COMPARISON(>)
TSL_COMPARISON(<=)
TSL_COMPARISON(>=)
TSL_COMPARISON(&&)
TSL_COMPARISON(||)
#undef TSL_COMPARISON

#define TSL_UNARY(op, R)                                                                                     \
  template <class V> TSL_INLINE tsl::IfVector<V, R> operator op(V value) {                                   \
    using T = tsl::ElementOf<V>;                                                                             \
    return tsl::map<R>([](T a) { return tsl::ElementOf<R>(op a); }, value);                                  \
  }
TSL_UNARY(+, V)
TSL_UNARY(-, V)
TSL_UNARY(~, V)
TSL_UNARY(!, tsl::BoolVector<V>)
#undef TSL_UNARY

// A component by index. The switch keeps a vector in registers where the index is no constant.
template <class V>
TSL_INLINE tsl::ElementOf<V> _slang_vector_get_element(V vector, int index) {
  if constexpr (tsl::Traits<V>::size >= 4) if (index == 3) return vector.w;
  if constexpr (tsl::Traits<V>::size >= 3) if (index == 2) return vector.z;
  if constexpr (tsl::Traits<V>::size >= 2) if (index == 1) return vector.y;
  return vector.x;
}

template <class V>
TSL_INLINE tsl::ElementOf<V>* _slang_vector_get_element_ptr(V* vector, int index) { return &vector->x + index; }

// The first N components, converted to T; components beyond the vector's are zero.
template <class T, int N, class V>
TSL_INLINE tsl::Vector<T, N> _slang_vector_reshape(V vector) {
  tsl::Vector<T, N> result{};
  result.x = T(vector.x);
  if constexpr (N >= 2 && tsl::Traits<V>::size >= 2) result.y = T(vector.y);
  if constexpr (N >= 3 && tsl::Traits<V>::size >= 3) result.z = T(vector.z);
  if constexpr (N >= 4 && tsl::Traits<V>::size >= 4) result.w = T(vector.w);
  return result;
}

template <class T>
TSL_INLINE T _slang_select(bool condition, T yes, typename tsl::Undeduced<T>::type no) { return condition ? yes : no; }

template <int N, class V>
TSL_INLINE V _slang_select(TslVector<bool, N> condition, V yes, V no) {
  if constexpr (N == 1) return V{condition.x ? yes.x : no.x};
  else if constexpr (N == 2) return V{condition.x ? yes.x : no.x, condition.y ? yes.y : no.y};
  else if constexpr (N == 3)
    return V{condition.x ? yes.x : no.x, condition.y ? yes.y : no.y, condition.z ? yes.z : no.z};
  else
    return V{condition.x ? yes.x : no.x, condition.y ? yes.y : no.y, condition.z ? yes.z : no.z, condition.w ? yes.w : no.w};
}

// Scalar product; also what Slang's `dot` may name.
template <class V>
TSL_INLINE tsl::ElementOf<V> _slang_vector_dot(V left, V right) {
  tsl::ElementOf<V> sum = left.x * right.x;
  if constexpr (tsl::Traits<V>::size >= 2) sum = sum + left.y * right.y;
  if constexpr (tsl::Traits<V>::size >= 3) sum = sum + left.z * right.z;
  if constexpr (tsl::Traits<V>::size >= 4) sum = sum + left.w * right.w;
  return sum;
}

// The distance vector of HLSL, which Slang leaves to the target.
template <class V>
TSL_INLINE V dst(V left, V right) {
  return V{tsl::ElementOf<V>(1), left.y * right.y, left.z, right.w};
}

#if TSL_CUDA
// CUDA's own blockDim and gridDim, where users' text names them, are dim3.
TSL_INLINE uint3 operator*(uint3 a, dim3 b) { return uint3{a.x * b.x, a.y * b.y, a.z * b.z}; }
TSL_INLINE uint3 operator*(dim3 a, uint3 b) { return uint3{a.x * b.x, a.y * b.y, a.z * b.z}; }
TSL_INLINE uint3 operator+(uint3 a, dim3 b) { return uint3{a.x + b.x, a.y + b.y, a.z + b.z}; }
TSL_INLINE uint3 operator+(dim3 a, uint3 b) { return uint3{a.x + b.x, a.y + b.y, a.z + b.z}; }
#endif
