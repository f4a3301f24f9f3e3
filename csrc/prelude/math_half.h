// Mathematical functions of half, F16_<name>: computed in float and rounded once, which is what a correctly
// rounded half function gives but for rare double roundings.
#pragma once

#include "prelude/half.h"
#include "prelude/math_scalar.h"

#define TSL_UNARY(name) TSL_INLINE __half F16_##name(__half x) { return __half(F32_##name(float(x))); }
#define TSL_BINARY(name) TSL_INLINE __half F16_##name(__half x, __half y) { return __half(F32_##name(float(x), float(y))); }
#define TSL_TEST(name) TSL_INLINE bool F16_##name(__half x) { return F32_##name(float(x)); }
TSL_UNARY(sin)
TSL_UNARY(cos)
TSL_UNARY(tan)
TSL_UNARY(asin)
TSL_UNARY(acos)
TSL_UNARY(atan)
TSL_UNARY(sinh)
TSL_UNARY(cosh)
TSL_UNARY(tanh)
TSL_UNARY(asinh)
TSL_UNARY(acosh)
TSL_UNARY(atanh)
TSL_UNARY(exp)
TSL_UNARY(exp2)
TSL_UNARY(log)
TSL_UNARY(log2)
TSL_UNARY(log10)
TSL_UNARY(sqrt)
TSL_UNARY(rsqrt)
TSL_UNARY(floor)
TSL_UNARY(ceil)
TSL_UNARY(trunc)
TSL_UNARY(round)
TSL_UNARY(frac)
TSL_BINARY(pow)
TSL_BINARY(atan2)
TSL_BINARY(fmod)
TSL_BINARY(remainder)
TSL_BINARY(min)
TSL_BINARY(max)
TSL_TEST(isnan)
TSL_TEST(isinf)
TSL_TEST(isfinite)
#undef TSL_UNARY
#undef TSL_BINARY
#undef TSL_TEST

TSL_INLINE __half F16_abs(__half x) { return tsl::half_from_bits(ushort(x.bits & 0x7fffu)); }
TSL_INLINE int F16_sign(__half x) { return F32_sign(float(x)); }
#if TSL_CUDA
TSL_INLINE __half F16_fma(__half a, __half b, __half c) {
  __half r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
}
#else
// The product of halves is exact in float, so one addition rounds to float before the sum rounds to half.
TSL_INLINE __half F16_fma(__half a, __half b, __half c) { return __half(double(float(a)) * float(b) + float(c)); }
#endif
TSL_INLINE __half F16_ldexp(__half x, int exponent) { return __half(F32_ldexp(float(x), exponent)); }
TSL_INLINE __half F16_frexp(__half x, int* exponent) { return __half(F32_frexp(float(x), exponent)); }
TSL_INLINE __half F16_modf(__half x, __half* whole) {
  float part;
  const float fraction = F32_modf(float(x), &part);
  *whole = __half(part);
  return __half(fraction);
}
TSL_INLINE void F16_sincos(__half x, __half* sine, __half* cosine) {
  *sine = F16_sin(x);
  *cosine = F16_cos(x);
}
TSL_INLINE ushort F16_asuint(__half x) { return x.bits; }
TSL_INLINE short F16_asint(__half x) { return short(x.bits); }
TSL_INLINE __half U16_asfloat(ushort x) { return tsl::half_from_bits(x); }
TSL_INLINE __half I16_asfloat(short x) { return tsl::half_from_bits(ushort(x)); }

TSL_INLINE __half _slang_fmod(__half x, __half y) { return F16_fmod(x, y); }

namespace tsl {
// What % is for numbers that are not integers.
TSL_INLINE float remainder_of(float a, float b) { return F32_fmod(a, b); }
TSL_INLINE double remainder_of(double a, double b) { return F64_fmod(a, b); }
TSL_INLINE __half remainder_of(__half a, __half b) { return F16_fmod(a, b); }
}  // namespace tsl
