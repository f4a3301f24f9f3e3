// Mathematical functions of float and double as emitted text names them: F32_<name>, F64_<name>. They are CUDA's and the C
// library's own, so results are theirs to the last bit. The few that hold a decision of ours are written out.
#pragma once

#include "prelude/target.h"

#if TSL_CUDA
#define TSL_LIBM(name) name
#else
#define TSL_LIBM(name) __builtin_##name
#endif

// Texts of second derivatives compute one function of one number several times. NVRTC merges equal calls, but not two copies of
// an inlined function with branches. So in these texts such functions are not inlined.
#define TSL_MERGES_CALLS (TSL_CUDA && TSL_SPECULATES && !TSL_FAST_MATH)
#if TSL_MERGES_CALLS
#define TSL_MERGED static __attribute__((device)) __noinline__
#else
#define TSL_MERGED TSL_INLINE
#endif

// F32_name and F64_name for the C library's `stem` (float: stem with an f).
#define TSL_UNARY_AS(inlined, name, stem)                               \
  inlined float F32_##name(float x) { return TSL_LIBM(stem##f)(x); }    \
  inlined double F64_##name(double x) { return TSL_LIBM(stem)(x); }
#define TSL_UNARY(name, stem) TSL_UNARY_AS(TSL_INLINE, name, stem)
#define TSL_BINARY(inlined, name, stem)                                                       \
  inlined float F32_##name(float x, float y) { return TSL_LIBM(stem##f)(x, y); }              \
  inlined double F64_##name(double x, double y) { return TSL_LIBM(stem)(x, y); }

#if TSL_MERGES_CALLS
// Sine and cosine of one number are one call.
template <class T> struct TslSineCosine {
  T sine, cosine;
};
TSL_MERGED TslSineCosine<float> tsl_sine_cosine(float x) {
  TslSineCosine<float> both;
  sincosf(x, &both.sine, &both.cosine);
  return both;
}
TSL_MERGED TslSineCosine<double> tsl_sine_cosine(double x) {
  TslSineCosine<double> both;
  sincos(x, &both.sine, &both.cosine);
  return both;
}
TSL_INLINE float F32_sin(float x) { return tsl_sine_cosine(x).sine; }
TSL_INLINE double F64_sin(double x) { return tsl_sine_cosine(x).sine; }
TSL_INLINE float F32_cos(float x) { return tsl_sine_cosine(x).cosine; }
TSL_INLINE double F64_cos(double x) { return tsl_sine_cosine(x).cosine; }
#else
TSL_UNARY(sin, sin)
TSL_UNARY(cos, cos)
#endif
TSL_UNARY_AS(TSL_MERGED, tan, tan)
TSL_UNARY_AS(TSL_MERGED, asin, asin)
TSL_UNARY_AS(TSL_MERGED, acos, acos)
TSL_UNARY_AS(TSL_MERGED, atan, atan)
TSL_UNARY_AS(TSL_MERGED, sinh, sinh)
TSL_UNARY_AS(TSL_MERGED, cosh, cosh)
TSL_UNARY_AS(TSL_MERGED, tanh, tanh)
TSL_UNARY_AS(TSL_MERGED, asinh, asinh)
TSL_UNARY_AS(TSL_MERGED, acosh, acosh)
TSL_UNARY_AS(TSL_MERGED, atanh, atanh)
TSL_UNARY(exp, exp)
TSL_UNARY(exp2, exp2)
TSL_UNARY(log, log)
TSL_UNARY(log2, log2)
TSL_UNARY(log10, log10)
TSL_UNARY(floor, floor)
TSL_UNARY(ceil, ceil)
TSL_UNARY(trunc, trunc)
TSL_UNARY(round, round)
TSL_UNARY(abs, fabs)
TSL_BINARY(TSL_MERGED, atan2, atan2)
TSL_BINARY(TSL_INLINE, fmod, fmod)
TSL_BINARY(TSL_INLINE, remainder, remainder)

#if TSL_CUDA && TSL_FAST_MATH
// CUDA's fast power is exp2(y * log2(x)), NaN for x < 0 and for 0 to the power of 0. Code that counts on powers of -1, or
// on the first term of a polynomial, needs those.
TSL_INLINE float F32_pow(float x, float y) {
  if (y == 0.0f) return 1.0f;
  const float size = powf(fabsf(x), y);
  if (!(x < 0.0f)) return size;
  const float half = 0.5f * y;
  if (y != floorf(y)) return __int_as_float(0x7fffffff);  // NaN
  return half != floorf(half) ? -size : size;
}
TSL_INLINE double F64_pow(double x, double y) { return pow(x, y); }
#else
TSL_BINARY(TSL_MERGED, pow, pow)
#endif

#if TSL_CUDA && !TSL_FAST_MATH
// Correctly rounded, as CUDA's own, which branches to a function for small numbers, zero and infinity: neither loads nor other
// roots move across that. Newton's step rounds correctly from 2^-101 on, and powers of 4 go through a root exactly. (NVRTC no
// longer folds roots of constants: that is the price.)
TSL_INLINE float F32_sqrt(float x) {
  const bool small = x < 0x1p-100f;
  const float scaled = small ? x * 0x1p64f : x;
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(scaled));
  const float root = scaled * inverse, nearer = fmaf(fmaf(-root, root, scaled), 0.5f * inverse, root);
  return x == 0.0f || x == float(tsl::kInfinity) ? x : small ? nearer * 0x1p-32f : nearer;
}
TSL_INLINE double F64_sqrt(double x) { return sqrt(x); }
#else
TSL_UNARY(sqrt, sqrt)
#endif
#if TSL_CUDA
TSL_UNARY(rsqrt, rsqrt)
TSL_INLINE float F32_exp10(float x) { return exp10f(x); }
TSL_INLINE double F64_exp10(double x) { return exp10(x); }
#else
TSL_INLINE float F32_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
TSL_INLINE double F64_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
#endif
TSL_UNARY(erfc, erfc)
#undef TSL_UNARY
#undef TSL_UNARY_AS
#undef TSL_BINARY

// x / y and exp2(x) of float for where a few instructions count: relative errors of 2^-22, denormal numbers are zero.
#if TSL_CUDA
TSL_INLINE float tsl_quotient(float x, float y) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  return x * inverse;
}
TSL_INLINE float tsl_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
#else
TSL_INLINE float tsl_quotient(float x, float y) { return x / y; }
TSL_INLINE float tsl_exp2(float x) { return F32_exp2(x); }
#endif

// Both types alike, T being the type and `stem` chosen by overload.
#define TSL_FLOATING(P, T, f)                                                                                    \
  TSL_INLINE T P##_fma(T a, T b, T c) { return TSL_LIBM(fma##f)(a, b, c); }                                      \
  TSL_INLINE T P##_frac(T x) { return x - P##_floor(x); }                                                        \
  /* Of a NaN and a number, the number. On the host without a branch, so that loops vectorise. */                \
  TSL_INLINE T P##_min(T a, T b) { return TSL_CUDA ? TSL_LIBM(fmin##f)(a, b) : a < b || b != b ? a : b; }        \
  TSL_INLINE T P##_max(T a, T b) { return TSL_CUDA ? TSL_LIBM(fmax##f)(a, b) : a > b || b != b ? a : b; }        \
  TSL_INLINE int P##_sign(T x) { return int(x > T(0)) - int(x < T(0)); }                                         \
  TSL_INLINE bool P##_isnan(T x) { return x != x; }                                                              \
  TSL_INLINE bool P##_isinf(T x) { return P##_abs(x) == T(tsl::kInfinity); }                               \
  TSL_INLINE bool P##_isfinite(T x) { return P##_abs(x) < T(tsl::kInfinity); }                             \
  TSL_INLINE T P##_frexp(T x, int* exponent) { return TSL_LIBM(frexp##f)(x, exponent); }                         \
  TSL_INLINE T P##_modf(T x, T* whole) { return TSL_LIBM(modf##f)(x, whole); }                                   \
  TSL_INLINE T P##_ldexp(T x, int exponent) { return TSL_LIBM(ldexp##f)(x, exponent); }

TSL_FLOATING(F32, float, f)
TSL_FLOATING(F64, double, )
#undef TSL_FLOATING

#if TSL_CUDA
TSL_INLINE void F32_sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
TSL_INLINE void F64_sincos(double x, double* sine, double* cosine) { sincos(x, sine, cosine); }
#else
TSL_INLINE void F32_sincos(float x, float* sine, float* cosine) { *sine = F32_sin(x); *cosine = F32_cos(x); }
TSL_INLINE void F64_sincos(double x, double* sine, double* cosine) { *sine = F64_sin(x); *cosine = F64_cos(x); }
#endif

TSL_INLINE float _slang_fmod(float x, float y) { return F32_fmod(x, y); }
TSL_INLINE double _slang_fmod(double x, double y) { return F64_fmod(x, y); }

// Bits.
TSL_INLINE uint F32_asuint(float x) { return slang_bit_cast<uint>(x); }
TSL_INLINE int F32_asint(float x) { return slang_bit_cast<int>(x); }
TSL_INLINE float I32_asfloat(int x) { return slang_bit_cast<float>(x); }
TSL_INLINE float U32_asfloat(uint x) { return slang_bit_cast<float>(x); }
TSL_INLINE float F32_asfloat(float x) { return x; }
TSL_INLINE uint I32_asuint(int x) { return uint(x); }
TSL_INLINE uint U32_asuint(uint x) { return x; }
TSL_INLINE int U32_asint(uint x) { return int(x); }
TSL_INLINE int I32_asint(int x) { return x; }
TSL_INLINE double U32_asdouble(uint low, uint high) { return slang_bit_cast<double>(ulonglong(high) << 32 | low); }
TSL_INLINE double I32_asdouble(int low, int high) { return U32_asdouble(uint(low), uint(high)); }

template <class T>
TSL_INLINE void F64_asuint(double x, T* low, T* high) {
  const ulonglong bits = slang_bit_cast<ulonglong>(x);
  *low = T(uint(bits));
  *high = T(uint(bits >> 32));
}
template <class T>
TSL_INLINE void F64_asint(double x, T* low, T* high) { F64_asuint(x, low, high); }
