// Vector types of one to four components and their constructors make_<type>: from components, or from one value for all.
// CUDA has built-in ones for its own scalar types; the others (bool, half, bfloat16), and all of them on the host, are
// TslVector<T, N>. tsl::Traits describes both kinds, so nothing else in the prelude tells them apart.
#pragma once

#include "prelude/half.h"

template <class T, int N> struct TslVector;
template <class T> struct TslVector<T, 1> { T x; };
template <class T> struct TslVector<T, 2> { T x, y; };
template <class T> struct TslVector<T, 3> { T x, y, z; };
template <class T> struct TslVector<T, 4> { T x, y, z, w; };

namespace tsl {

// Traits<V>: `size` is the number of components, 0 if V is no vector.
template <class V> struct Traits { static constexpr int size = 0; };
template <class T, int N> struct Traits<TslVector<T, N>> { using Element = T; static constexpr int size = N; };

template <class T, int N> struct VectorOf { using type = TslVector<T, N>; };
template <class T, int N> using Vector = typename VectorOf<T, N>::type;

template <class V> static constexpr bool kIsVector = Traits<V>::size > 0;

}  // namespace tsl

#if TSL_CUDA
#define TSL_BUILTIN_VECTOR(T, name, N)                                                            \
  namespace tsl {                                                                                 \
  template <> struct Traits<name##N> { using Element = T; static constexpr int size = N; };       \
  template <> struct VectorOf<T, N> { using type = name##N; };                                    \
  }
#define TSL_BUILTIN_VECTORS(T, name)                                                              \
  TSL_BUILTIN_VECTOR(T, name, 1) TSL_BUILTIN_VECTOR(T, name, 2)                                   \
  TSL_BUILTIN_VECTOR(T, name, 3) TSL_BUILTIN_VECTOR(T, name, 4)                                   \
  TSL_INLINE name##2 make_##name##2(T s) { return name##2{s, s}; }                                \
  TSL_INLINE name##3 make_##name##3(T s) { return name##3{s, s, s}; }                             \
  TSL_INLINE name##4 make_##name##4(T s) { return name##4{s, s, s, s}; }
#else
#define TSL_BUILTIN_VECTORS(T, name) TSL_VECTORS(T, name)
#endif

#define TSL_VECTORS(T, name)                                                                      \
  typedef TslVector<T, 1> name##1;                                                                \
  typedef TslVector<T, 2> name##2;                                                                \
  typedef TslVector<T, 3> name##3;                                                                \
  typedef TslVector<T, 4> name##4;                                                                \
  TSL_INLINE name##1 make_##name##1(T x) { return name##1{x}; }                                   \
  TSL_INLINE name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                           \
  TSL_INLINE name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                   \
  TSL_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }           \
  TSL_INLINE name##2 make_##name##2(T s) { return name##2{s, s}; }                                \
  TSL_INLINE name##3 make_##name##3(T s) { return name##3{s, s, s}; }                             \
  TSL_INLINE name##4 make_##name##4(T s) { return name##4{s, s, s, s}; }

TSL_VECTORS(bool, bool)
TSL_VECTORS(__half, __half)
TSL_VECTORS(__nv_bfloat16, __nv_bfloat16)
TSL_BUILTIN_VECTORS(float, float)
TSL_BUILTIN_VECTORS(double, double)
#if TSL_CUDA
TSL_BUILTIN_VECTORS(signed char, char)
#else
TSL_BUILTIN_VECTORS(char, char)
#endif
TSL_BUILTIN_VECTORS(uchar, uchar)
TSL_BUILTIN_VECTORS(short, short)
TSL_BUILTIN_VECTORS(ushort, ushort)
TSL_BUILTIN_VECTORS(int, int)
TSL_BUILTIN_VECTORS(uint, uint)
TSL_BUILTIN_VECTORS(longlong, longlong)
TSL_BUILTIN_VECTORS(ulonglong, ulonglong)
#undef TSL_VECTORS
#undef TSL_BUILTIN_VECTORS
#undef TSL_BUILTIN_VECTOR

#if TSL_CUDA
namespace tsl {
template <int N> struct VectorOf<char, N> : VectorOf<signed char, N> {};  // emitted text says char for int8
}
#else
typedef uint3 dim3;
#endif
