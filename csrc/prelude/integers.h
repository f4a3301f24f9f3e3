// Functions of integers as emitted text names them: I8_ ... U64_<name>, IPTR_, UPTR_. And CUDA's bit functions on the host.
#pragma once

#include "prelude/target.h"

namespace tsl {

TSL_INLINE int leading_zeros(uint x) {
#if TSL_CUDA
  return __clz(int(x));
#else
  return x ? __builtin_clz(x) : 32;
#endif
}
TSL_INLINE int leading_zeros(ulonglong x) {
#if TSL_CUDA
  return __clzll(longlong(x));
#else
  return x ? __builtin_clzll(x) : 64;
#endif
}
TSL_INLINE int trailing_zeros(ulonglong x) {  // of x != 0
#if TSL_CUDA
  return __ffsll(longlong(x)) - 1;
#else
  return __builtin_ctzll(x);
#endif
}
TSL_INLINE uint bit_count(ulonglong x) {
#if TSL_CUDA
  return uint(__popcll(x));
#else
  return uint(__builtin_popcountll(x));
#endif
}
TSL_INLINE ulonglong reversed_bits(ulonglong x) {
#if TSL_CUDA
  return __brevll(x);
#else
  x = ((x >> 1) & 0x5555555555555555ull) | ((x & 0x5555555555555555ull) << 1);
  x = ((x >> 2) & 0x3333333333333333ull) | ((x & 0x3333333333333333ull) << 2);
  x = ((x >> 4) & 0x0f0f0f0f0f0f0f0full) | ((x & 0x0f0f0f0f0f0f0f0full) << 4);
  return __builtin_bswap64(x);
#endif
}

template <class T> TSL_INLINE bool is_negative(T a) {
  if constexpr (T(-1) < T(1)) return a < T(0);
  else return false;
}

// Index of the highest set bit, counted from bit 0; of a negative number the highest clear bit; -1 if there is none.
TSL_INLINE int highest_bit(ulonglong x) { return 63 - leading_zeros(x); }

}  // namespace tsl

// P: prefix; T: the type; U: the unsigned type of its size.
#define TSL_INTEGER(P, T, U)                                                                                  \
  TSL_INLINE T P##_min(T a, T b) { return a < b ? a : b; }                                                    \
  TSL_INLINE T P##_max(T a, T b) { return a > b ? a : b; }                                                    \
  TSL_INLINE T P##_fma(T a, T b, T c) { return T(U(a) * U(b) + U(c)); }                                       \
  TSL_INLINE T P##_abs(T a) { return T(tsl::is_negative(a) ? U(0) - U(a) : U(a)); }                                      \
  TSL_INLINE int P##_sign(T a) { return int(a > T(0)) - int(tsl::is_negative(a)); }                                      \
  TSL_INLINE uint P##_countbits(T a) { return tsl::bit_count(U(a)); }                                         \
  TSL_INLINE T P##_reversebits(T a) { return T(tsl::reversed_bits(U(a)) >> (64 - 8 * sizeof(T))); }           \
  TSL_INLINE int P##_firstbitlow(T a) { return a == T(0) ? -1 : tsl::trailing_zeros(U(a)); }                  \
  TSL_INLINE int P##_firstbithigh(T a) { return tsl::highest_bit(tsl::is_negative(a) ? U(~U(a)) : U(a)); }
TSL_INTEGER(I8, char, uchar)
TSL_INTEGER(I16, short, ushort)
TSL_INTEGER(I32, int, uint)
TSL_INTEGER(I64, longlong, ulonglong)
TSL_INTEGER(U8, uchar, uchar)
TSL_INTEGER(U16, ushort, ushort)
TSL_INTEGER(U32, uint, uint)
TSL_INTEGER(U64, ulonglong, ulonglong)
TSL_INTEGER(IPTR, int64_t, uint64_t)
TSL_INTEGER(UPTR, uint64_t, uint64_t)
#undef TSL_INTEGER

#if !TSL_CUDA
TSL_INLINE int __popc(uint x) { return __builtin_popcount(x); }
TSL_INLINE int __popcll(ulonglong x) { return __builtin_popcountll(x); }
TSL_INLINE int __ffs(int x) { return __builtin_ffs(x); }
TSL_INLINE int __ffsll(longlong x) { return __builtin_ffsll(x); }
TSL_INLINE int __clz(int x) { return tsl::leading_zeros(uint(x)); }
TSL_INLINE int __clzll(longlong x) { return tsl::leading_zeros(ulonglong(x)); }
TSL_INLINE uint __brev(uint x) { return uint(tsl::reversed_bits(x) >> 32); }
TSL_INLINE ulonglong __brevll(ulonglong x) { return tsl::reversed_bits(x); }
TSL_INLINE uint __float_as_uint(float x) { return slang_bit_cast<uint>(x); }
TSL_INLINE int __float_as_int(float x) { return slang_bit_cast<int>(x); }
TSL_INLINE float __uint_as_float(uint x) { return slang_bit_cast<float>(x); }
TSL_INLINE float __int_as_float(int x) { return slang_bit_cast<float>(x); }
template <class T> TSL_INLINE T __ldg(const T* p) { return *p; }
#endif
