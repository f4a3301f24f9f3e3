// What waves combine with: sums, products, minima, bits; on scalars, and by component on vectors and matrices.
#pragma once

#include "prelude/components.h"

typedef uint WarpMask;

namespace tsl {

template <class T> TSL_INLINE T lowest() {
  if constexpr (T(0.5) != T(0)) return T(-kInfinity);
  else if constexpr (T(-1) < T(1)) return T(T(1) << (8 * sizeof(T) - 1));
  else return T(0);
}
template <class T> TSL_INLINE T highest() {
  if constexpr (T(0.5) != T(0)) return T(kInfinity);
  else return T(~lowest<T>());
}
template <> TSL_INLINE __half lowest<__half>() { return half_from_bits(0xfc00); }
template <> TSL_INLINE __half highest<__half>() { return half_from_bits(0x7c00); }

struct WaveAdd {
  template <class T> static TSL_INLINE T identity() { return T(0); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return T(a + b); }
};
struct WaveMultiply {
  template <class T> static TSL_INLINE T identity() { return T(1); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return T(a * b); }
};
struct WaveMin {
  template <class T> static TSL_INLINE T identity() { return highest<T>(); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return b < a || a != a ? b : a; }
};
struct WaveMax {
  template <class T> static TSL_INLINE T identity() { return lowest<T>(); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return b > a || a != a ? b : a; }
};
struct WaveAnd {
  template <class T> static TSL_INLINE T identity() { return T(~T(0)); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return T(a & b); }
};
struct WaveOr {
  template <class T> static TSL_INLINE T identity() { return T(0); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return T(a | b); }
};
struct WaveXor {
  template <class T> static TSL_INLINE T identity() { return T(0); }
  template <class T> TSL_INLINE T operator()(T a, T b) const { return T(a ^ b); }
};

template <class Op, class T> TSL_INLINE T combine(T a, T b) {
  for_each_scalar(&a, b, [](auto* x, auto& y) { *x = Op{}(*x, y); });
  return a;
}

template <class Op, class S> TSL_INLINE void set_identity(S* scalar) { *scalar = Op::template identity<S>(); }

// What leaves every value alone.
template <class Op, class T> TSL_INLINE T identity() {
  T value{};
  for_each_scalar(&value, value, [](auto* x, auto&) { set_identity<Op>(x); });
  return value;
}

}  // namespace tsl
