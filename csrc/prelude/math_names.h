// Functions that CUDA's device code has without a header, for text that says `__intrinsic_asm "log1p($0)"`: the C library's
// by name, for float and double and with an f, and CUDA's own. On a GPU they are there; these are for the host.
// Approximate ones (__expf) are exact here. Left out: arithmetic that rounds up, down or to zero, inverses of the error
// functions, erfcx, Bessel functions but for J and Y, and instructions on several small integers (__dp4a, __vadd2). The host compiler names those that are missing.
#pragma once

#include "prelude/integers.h"
#include "prelude/math_scalar.h"

#if !TSL_CUDA

// A function of the C library's: name(float), namef(float) and name(double). `R(T)`: its result type for numbers of type T.
// The latter two are declared and not defined: to the compiler they are its built-in functions.
#define TSL_NAMED(name, R, PARAMETERS, ...)                                                    \
  extern "C" R(float) name##f(PARAMETERS(float));                                              \
  extern "C" R(double) name(PARAMETERS(double));                                               \
  TSL_INLINE R(float) name(PARAMETERS(float)) { return __builtin_##name##f(__VA_ARGS__); }
#define TSL_T(T) T
#define TSL_INT(T) int
#define TSL_LONG(T) long
#define TSL_LONGLONG(T) longlong
#define TSL_X(T) T x
#define TSL_XY(T) T x, T y
#define TSL_XYZ(T) T x, T y, T z
#define TSL_XYZW(T) T x, T y, T z, T w
#define TSL_XN(T) T x, int n
#define TSL_NX(T) int n, T x
#define TSL_OF_ONE(name) TSL_NAMED(name, TSL_T, TSL_X, x)
#define TSL_OF_TWO(name) TSL_NAMED(name, TSL_T, TSL_XY, x, y)
TSL_OF_ONE(acos) TSL_OF_ONE(acosh) TSL_OF_ONE(asin) TSL_OF_ONE(asinh) TSL_OF_ONE(atan) TSL_OF_ONE(atanh)
TSL_OF_ONE(cbrt) TSL_OF_ONE(ceil) TSL_OF_ONE(cos) TSL_OF_ONE(cosh) TSL_OF_ONE(erf) TSL_OF_ONE(erfc)
TSL_OF_ONE(exp) TSL_OF_ONE(exp10) TSL_OF_ONE(exp2) TSL_OF_ONE(expm1) TSL_OF_ONE(fabs) TSL_OF_ONE(floor)
TSL_OF_ONE(j0) TSL_OF_ONE(j1) TSL_OF_ONE(lgamma) TSL_OF_ONE(log) TSL_OF_ONE(log10) TSL_OF_ONE(log1p)
TSL_OF_ONE(log2) TSL_OF_ONE(logb) TSL_OF_ONE(nearbyint) TSL_OF_ONE(rint) TSL_OF_ONE(round) TSL_OF_ONE(sin)
TSL_OF_ONE(sinh) TSL_OF_ONE(sqrt) TSL_OF_ONE(tan) TSL_OF_ONE(tanh) TSL_OF_ONE(tgamma) TSL_OF_ONE(trunc)
TSL_OF_ONE(y0) TSL_OF_ONE(y1)
TSL_OF_TWO(atan2) TSL_OF_TWO(copysign) TSL_OF_TWO(fdim) TSL_OF_TWO(fmax) TSL_OF_TWO(fmin) TSL_OF_TWO(fmod)
TSL_OF_TWO(hypot) TSL_OF_TWO(nextafter) TSL_OF_TWO(pow) TSL_OF_TWO(remainder)
TSL_NAMED(fma, TSL_T, TSL_XYZ, x, y, z)
TSL_NAMED(ldexp, TSL_T, TSL_XN, x, n)
TSL_NAMED(scalbn, TSL_T, TSL_XN, x, n)
TSL_NAMED(jn, TSL_T, TSL_NX, n, x)
TSL_NAMED(yn, TSL_T, TSL_NX, n, x)
TSL_NAMED(ilogb, TSL_INT, TSL_X, x)
TSL_NAMED(lrint, TSL_LONG, TSL_X, x)
TSL_NAMED(lround, TSL_LONG, TSL_X, x)
TSL_NAMED(llrint, TSL_LONGLONG, TSL_X, x)
TSL_NAMED(llround, TSL_LONGLONG, TSL_X, x)

// CUDA's own, the same way, from a template of ours.
#define TSL_OWN_AS(name, own, T, PARAMETERS, ...) \
  TSL_INLINE T name(PARAMETERS(T)) { return tsl::own##_of(__VA_ARGS__); }
#define TSL_OWN(name, PARAMETERS, ...)                                  \
  TSL_OWN_AS(name, name, float, PARAMETERS, __VA_ARGS__)                \
  TSL_OWN_AS(name##f, name, float, PARAMETERS, __VA_ARGS__)             \
  TSL_OWN_AS(name, name, double, PARAMETERS, __VA_ARGS__)
namespace tsl {
constexpr double kPi = 3.14159265358979323846;
template <class T> TSL_INLINE T rsqrt_of(T x) { return T(1) / ::sqrt(x); }
template <class T> TSL_INLINE T rcbrt_of(T x) { return T(1) / ::cbrt(x); }
template <class T> TSL_INLINE T normcdf_of(T x) { return T(0.5) * ::erfc(T(-0.70710678118654752440) * x); }
// Of pi * x without what rounding pi loses: x goes to a quarter of the circle first.
template <class T> TSL_INLINE T sinpi_of(T x) {
  T turn = x - T(2) * ::rint(x * T(0.5));  // from -1 to 1
  if (::fabs(turn) > T(0.5)) turn = ::copysign(T(1), turn) - turn;
  return ::sin(T(kPi) * turn);
}
template <class T> TSL_INLINE T cospi_of(T x) { return sinpi_of(T(0.5) - ::fabs(x - T(2) * ::rint(x * T(0.5)))); }
template <class T> TSL_INLINE T norm3d_of(T x, T y, T z) { return ::hypot(::hypot(x, y), z); }
template <class T> TSL_INLINE T norm4d_of(T x, T y, T z, T w) { return ::hypot(::hypot(x, y), ::hypot(z, w)); }
template <class T> TSL_INLINE T rhypot_of(T x, T y) { return T(1) / ::hypot(x, y); }
template <class T> TSL_INLINE T rnorm3d_of(T x, T y, T z) { return T(1) / norm3d_of(x, y, z); }
template <class T> TSL_INLINE T rnorm4d_of(T x, T y, T z, T w) { return T(1) / norm4d_of(x, y, z, w); }

// The result of one operation, that no other is merged with.
template <class T> TSL_INLINE T alone(T x) {
#if defined(__x86_64__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#else
  asm("" : "+m"(x));
#endif
  return x;
}

// As a GPU converts: the nearest that the type has, of NaN zero, or from or to 64 bits the highest bit alone.
template <class I, class T> TSL_INLINE I converted(T whole) {
  constexpr bool kSigned = I(-1) < I(1);
  constexpr I kLeast = kSigned ? I(ulonglong(1) << (8 * sizeof(I) - 1)) : I(0), kMost = I(~kLeast);
  if (whole != whole) return sizeof(I) == 8 || sizeof(T) == 8 ? I(ulonglong(1) << (8 * sizeof(I) - 1)) : I(0);
  if (whole <= T(kLeast)) return kLeast;
  return whole >= T(kMost) ? kMost : I(whole);
}
}  // namespace tsl
TSL_OWN(rsqrt, TSL_X, x)
TSL_OWN(rcbrt, TSL_X, x)
TSL_OWN(normcdf, TSL_X, x)
TSL_OWN(sinpi, TSL_X, x)
TSL_OWN(cospi, TSL_X, x)
TSL_OWN(rhypot, TSL_XY, x, y)
TSL_OWN(norm3d, TSL_XYZ, x, y, z)
TSL_OWN(norm4d, TSL_XYZW, x, y, z, w)
TSL_OWN(rnorm3d, TSL_XYZ, x, y, z)
TSL_OWN(rnorm4d, TSL_XYZW, x, y, z, w)

#define TSL_PLACES(T, f)                                                                              \
  extern "C" T frexp##f(T x, int* n);                                                                 \
  extern "C" T modf##f(T x, T* whole);                                                                \
  extern "C" T remquo##f(T x, T y, int* n);                                                           \
  extern "C" void sincos##f(T x, T* s, T* c);                                                         \
  TSL_INLINE void sincospi##f(T x, T* s, T* c) { *s = ::sinpi(x); *c = ::cospi(x); }                  \
  TSL_INLINE bool isnan(T x) { return x != x; }                                                       \
  TSL_INLINE bool isinf(T x) { return ::fabs(x) == T(tsl::kInfinity); }                               \
  TSL_INLINE bool isfinite(T x) { return ::fabs(x) < T(tsl::kInfinity); }                             \
  TSL_INLINE bool signbit(T x) { return __builtin_signbit##f(x) != 0; }                               \
  TSL_INLINE T abs(T x) { return ::fabs(x); }                                                         \
  TSL_INLINE T min(T x, T y) { return ::fmin(x, y); }                                                 \
  TSL_INLINE T max(T x, T y) { return ::fmax(x, y); }
TSL_PLACES(float, f)
TSL_PLACES(double, )
#define TSL_WHOLE(T)                                             \
  TSL_INLINE T min(T x, T y) { return x < y ? x : y; }           \
  TSL_INLINE T max(T x, T y) { return x > y ? x : y; }
TSL_WHOLE(int) TSL_WHOLE(uint) TSL_WHOLE(longlong) TSL_WHOLE(ulonglong)
extern "C" int abs(int x);
extern "C" longlong llabs(longlong x);
TSL_INLINE longlong abs(longlong x) { return ::llabs(x); }

TSL_INLINE float fdividef(float x, float y) { return x / y; }
TSL_INLINE float __fdividef(float x, float y) { return x / y; }
TSL_INLINE float __sinf(float x) { return ::sin(x); }
TSL_INLINE float __cosf(float x) { return ::cos(x); }
TSL_INLINE float __tanf(float x) { return ::tan(x); }
TSL_INLINE float __tanhf(float x) { return ::tanh(x); }
TSL_INLINE float __expf(float x) { return ::exp(x); }
TSL_INLINE float __exp10f(float x) { return ::exp10(x); }
TSL_INLINE float __logf(float x) { return ::log(x); }
TSL_INLINE float __log2f(float x) { return ::log2(x); }
TSL_INLINE float __log10f(float x) { return ::log10(x); }
TSL_INLINE float __powf(float x, float y) { return ::pow(x, y); }
TSL_INLINE float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }  // of NaN zero
TSL_INLINE void __sincosf(float x, float* s, float* c) { ::sincosf(x, s, c); }

#define TSL_ROUNDED(T, f, merged)                                                    \
  TSL_INLINE T __##f##add_rn(T x, T y) { return tsl::alone(x + y); }                \
  TSL_INLINE T __##f##sub_rn(T x, T y) { return tsl::alone(x - y); }                \
  TSL_INLINE T __##f##mul_rn(T x, T y) { return tsl::alone(x * y); }                \
  TSL_INLINE T __##f##div_rn(T x, T y) { return tsl::alone(x / y); }                \
  TSL_INLINE T __##f##rcp_rn(T x) { return tsl::alone(T(1) / x); }                  \
  TSL_INLINE T __##f##sqrt_rn(T x) { return tsl::alone(::sqrt(x)); }                \
  TSL_INLINE T merged(T x, T y, T z) { return ::fma(x, y, z); }
TSL_ROUNDED(float, f, __fmaf_rn)
TSL_ROUNDED(double, d, __fma_rn)
TSL_INLINE float __frsqrt_rn(float x) { return float(1.0 / ::sqrt(double(x))); }

// Conversions: __float2int_rd(x) and the like.
#define TSL_CONVERSION(from, T, to, I)                                                                  \
  TSL_INLINE I __##from##2##to##_rn(T x) { return tsl::converted<I>(::rint(x)); }                       \
  TSL_INLINE I __##from##2##to##_rz(T x) { return tsl::converted<I>(::trunc(x)); }                      \
  TSL_INLINE I __##from##2##to##_ru(T x) { return tsl::converted<I>(::ceil(x)); }                       \
  TSL_INLINE I __##from##2##to##_rd(T x) { return tsl::converted<I>(::floor(x)); }
#define TSL_CONVERSIONS(to, I)                                      \
  TSL_CONVERSION(float, float, to, I)                               \
  TSL_CONVERSION(double, double, to, I)                             \
  TSL_INLINE float __##to##2float_rn(I x) { return float(x); }      \
  TSL_INLINE double __##to##2double_rn(I x) { return double(x); }
TSL_CONVERSIONS(int, int) TSL_CONVERSIONS(uint, uint) TSL_CONVERSIONS(ll, longlong) TSL_CONVERSIONS(ull, ulonglong)
TSL_INLINE float __double2float_rn(double x) { return float(x); }
TSL_INLINE longlong __double_as_longlong(double x) { return slang_bit_cast<longlong>(x); }
TSL_INLINE double __longlong_as_double(longlong x) { return slang_bit_cast<double>(x); }
TSL_INLINE int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
TSL_INLINE int __double2loint(double x) { return int(__double_as_longlong(x)); }
TSL_INLINE double __hiloint2double(int high, int low) {
  return __longlong_as_double(longlong(ulonglong(uint(high)) << 32 | uint(low)));
}

// Whole numbers. The low 24 bits of __mul24's arguments count.
TSL_INLINE int __mul24(int x, int y) { return int(uint((x << 8) >> 8) * uint((y << 8) >> 8)); }
TSL_INLINE uint __umul24(uint x, uint y) { return (x & 0xffffffu) * (y & 0xffffffu); }
TSL_INLINE int __mulhi(int x, int y) { return int(longlong(x) * y >> 32); }
TSL_INLINE uint __umulhi(uint x, uint y) { return uint(ulonglong(x) * y >> 32); }
TSL_INLINE longlong __mul64hi(longlong x, longlong y) { return longlong(__int128(x) * y >> 64); }
TSL_INLINE ulonglong __umul64hi(ulonglong x, ulonglong y) { return ulonglong((unsigned __int128)(x) * y >> 64); }
TSL_INLINE uint __sad(int x, int y, uint z) { return z + (x > y ? uint(x) - uint(y) : uint(y) - uint(x)); }
TSL_INLINE uint __usad(uint x, uint y, uint z) { return z + (x > y ? x - y : y - x); }
TSL_INLINE int __hadd(int x, int y) { return int((longlong(x) + y) >> 1); }
TSL_INLINE int __rhadd(int x, int y) { return int((longlong(x) + y + 1) >> 1); }
TSL_INLINE uint __uhadd(uint x, uint y) { return uint((ulonglong(x) + y) >> 1); }
TSL_INLINE uint __urhadd(uint x, uint y) { return uint((ulonglong(x) + y + 1) >> 1); }
TSL_INLINE uint __funnelshift_l(uint low, uint high, uint n) {
  return uint(((ulonglong(high) << 32 | low) << (n & 31)) >> 32);
}
TSL_INLINE uint __funnelshift_r(uint low, uint high, uint n) { return uint((ulonglong(high) << 32 | low) >> (n & 31)); }
// Three bits choose a byte; the fourth is not looked at.
TSL_INLINE uint __byte_perm(uint x, uint y, uint selector) {
  const ulonglong bytes = ulonglong(y) << 32 | x;
  uint result = 0;
  for (int i = 0; i < 4; ++i) result |= (uint(bytes >> (8 * (selector >> (4 * i) & 7))) & 0xff) << (8 * i);
  return result;
}

#undef TSL_NAMED
#undef TSL_OWN_AS
#undef TSL_OWN
#undef TSL_OF_ONE
#undef TSL_OF_TWO
#undef TSL_PLACES
#undef TSL_WHOLE
#undef TSL_ROUNDED
#undef TSL_CONVERSION
#undef TSL_CONVERSIONS
#undef TSL_T
#undef TSL_INT
#undef TSL_LONG
#undef TSL_LONGLONG
#undef TSL_X
#undef TSL_XY
#undef TSL_XYZ
#undef TSL_XYZW
#undef TSL_XN
#undef TSL_NX

#endif
