// float16 and bfloat16 as emitted text names them: __half and __nv_bfloat16. Our own types, since neither NVRTC nor a host
// compiler brings any that works on both. Every operation rounds to the type (through float, which is exact
// enough for + - * / sqrt to be correctly rounded). bfloat16 is storage with conversions; arithmetic happens in float.
#pragma once

#include "prelude/target.h"

// What cuda_fp16.h and cuda_bf16.h would define is defined here: an #include of them in users' text must stay without effect.
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_FP16_TYPES_EXIST__
#define __CUDA_BF16_TYPES_EXIST__

namespace tsl {

// Round to nearest even, in integer arithmetic: for constants, and for targets without an instruction.
TSL_INLINE constexpr ushort portable_bfloat16_bits(float value) {
  uint bits = __builtin_bit_cast(uint, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return ushort((bits >> 16) | 0x40u);  // NaN stays NaN
  return ushort((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if TSL_CUDA && __CUDA_ARCH__ >= 800
TSL_INLINE ushort device_bfloat16_bits(float value) { ushort r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(value)); return r; }
TSL_INLINE constexpr ushort bfloat16_bits(float value) {
  return __builtin_is_constant_evaluated() ? portable_bfloat16_bits(value) : device_bfloat16_bits(value);
}
#else
TSL_INLINE constexpr ushort bfloat16_bits(float value) { return portable_bfloat16_bits(value); }
#endif

#if TSL_CUDA
// Written as two halves of a word, not as a shift: of a value that is the upper half of a word already, one instruction masks
// the lower half away.
TSL_INLINE float device_float_of_bfloat16(ushort bits) {
  float r;
  asm("mov.b32 %0, {%1, %2};" : "=f"(r) : "h"(ushort(0)), "h"(bits));
  return r;
}
TSL_INLINE constexpr float float_of_bfloat16(ushort bits) {
  return __builtin_is_constant_evaluated() ? __builtin_bit_cast(float, uint(bits) << 16) : device_float_of_bfloat16(bits);
}
#else
TSL_INLINE constexpr float float_of_bfloat16(ushort bits) { return __builtin_bit_cast(float, uint(bits) << 16); }
#endif

#if TSL_CUDA

TSL_INLINE constexpr ushort constant_half_bits(float value) {
  uint bits = __builtin_bit_cast(uint, value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return ushort(sign | 0x7fffu);
  if (rest >= 0x477ff000u) return ushort(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: let float addition round at 2^-24
    float scaled = __builtin_bit_cast(float, rest) + 0.5f;
    return ushort(sign | (__builtin_bit_cast(uint, scaled) - 0x3f000000u));
  }
  rest += 0xfffu + ((rest >> 13) & 1u);
  return ushort(sign | ((rest - 0x38000000u) >> 13));
}

TSL_INLINE ushort device_half_bits(float value) { ushort r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(value)); return r; }
TSL_INLINE ushort device_half_bits(double value) { ushort r; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(value)); return r; }
TSL_INLINE float float_of_half(ushort bits) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits)); return r; }

template <class A> TSL_INLINE constexpr ushort half_bits(A value) {
  return __builtin_is_constant_evaluated() ? constant_half_bits(float(value)) : device_half_bits(float(value));
}
template <> TSL_INLINE constexpr ushort half_bits(double value) {
  return __builtin_is_constant_evaluated() ? constant_half_bits(float(value)) : device_half_bits(value);
}

#else

template <class A> TSL_INLINE constexpr ushort half_bits(A value) { return __builtin_bit_cast(ushort, _Float16(value)); }
TSL_INLINE constexpr float float_of_half(ushort bits) { return float(__builtin_bit_cast(_Float16, bits)); }

#endif

}  // namespace tsl

struct __half {
  ushort bits;
  __half() = default;
  template <class A> TSL_INLINE constexpr explicit __half(A value) : bits(tsl::half_bits(value)) {}
  TSL_INLINE operator float() const { return tsl::float_of_half(bits); }
};

struct __nv_bfloat16 {
  ushort bits;
  __nv_bfloat16() = default;
  template <class A> TSL_INLINE constexpr explicit __nv_bfloat16(A value) : bits(tsl::bfloat16_bits(float(value))) {}
  TSL_INLINE constexpr operator float() const { return tsl::float_of_bfloat16(bits); }
};

typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;

namespace tsl {
template <> TSL_INLINE constexpr ushort half_bits(__half value) { return value.bits; }
template <> TSL_INLINE constexpr ushort half_bits(__nv_bfloat16 value) { return half_bits(float_of_bfloat16(value.bits)); }
TSL_INLINE __half half_from_bits(ushort bits) { __half r; r.bits = bits; return r; }
}  // namespace tsl

#if TSL_CUDA
#define TSL_HALF_OPERATOR(op, name)                                                       \
  TSL_INLINE __half operator op(__half a, __half b) {                                     \
    __half r;                                                                             \
    asm(name ".f16 %0, %1, %2;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits));               \
    return r;                                                                             \
  }
TSL_HALF_OPERATOR(+, "add.rn")
TSL_HALF_OPERATOR(-, "sub.rn")
TSL_HALF_OPERATOR(*, "mul.rn")
#undef TSL_HALF_OPERATOR
TSL_INLINE __half operator/(__half a, __half b) { return __half(float(a) / float(b)); }
#else
TSL_INLINE __half operator+(__half a, __half b) { return __half(float(a) + float(b)); }
TSL_INLINE __half operator-(__half a, __half b) { return __half(float(a) - float(b)); }
TSL_INLINE __half operator*(__half a, __half b) { return __half(float(a) * float(b)); }
TSL_INLINE __half operator/(__half a, __half b) { return __half(float(a) / float(b)); }
#endif
TSL_INLINE __half operator-(__half a) { return tsl::half_from_bits(ushort(a.bits ^ 0x8000u)); }
TSL_INLINE __half operator+(__half a) { return a; }
TSL_INLINE __half& operator+=(__half& a, __half b) { return a = a + b; }
TSL_INLINE __half& operator-=(__half& a, __half b) { return a = a - b; }
TSL_INLINE __half& operator*=(__half& a, __half b) { return a = a * b; }
TSL_INLINE __half& operator/=(__half& a, __half b) { return a = a / b; }

// Comparisons are float's, through the conversion. bfloat16's arithmetic too, rounded at each step.
TSL_INLINE __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) + float(b)); }
TSL_INLINE __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) - float(b)); }
TSL_INLINE __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) * float(b)); }
TSL_INLINE __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) / float(b)); }
TSL_INLINE __nv_bfloat16 operator-(__nv_bfloat16 a) { a.bits = ushort(a.bits ^ 0x8000u); return a; }

// CUDA's names.
TSL_INLINE float __half2float(__half a) { return a; }
TSL_INLINE __half __float2half(float a) { return __half(a); }
TSL_INLINE __half __float2half_rn(float a) { return __half(a); }
TSL_INLINE float __bfloat162float(__nv_bfloat16 a) { return a; }
TSL_INLINE __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
TSL_INLINE ushort __half_as_ushort(__half a) { return a.bits; }
TSL_INLINE short __half_as_short(__half a) { return short(a.bits); }
TSL_INLINE __half __ushort_as_half(ushort a) { return tsl::half_from_bits(a); }
TSL_INLINE __half __short_as_half(short a) { return tsl::half_from_bits(ushort(a)); }
TSL_INLINE ushort __bfloat16_as_ushort(__nv_bfloat16 a) { return a.bits; }
TSL_INLINE __nv_bfloat16 __ushort_as_bfloat16(ushort a) { __nv_bfloat16 r; r.bits = a; return r; }
