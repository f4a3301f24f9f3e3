// Atomic operations on every scalar type, as CUDA names them (atomicAdd, ...). CUDA's built-in overloads are taken where they
// exist; the rest, and all of them on the host, are compare-and-swap loops over the word that holds the value. The
// host's need no meeting of threads: blocks run on several threads of the pool at once. Ordering is relaxed on
// both; __threadfence orders.
#pragma once

#include "prelude/types.h"

namespace tsl {

template <int kBytes> struct WordOf;
#if TSL_CUDA
template <> struct WordOf<16> { using type = uint4; };
template <> struct WordOf<1> { using type = uchar; };
template <> struct WordOf<2> { using type = ushort; };
template <> struct WordOf<4> { using type = uint; };
template <> struct WordOf<8> { using type = ulonglong; };
template <class Word> TSL_INLINE Word compare_and_swap(Word* p, Word expected, Word desired) {
  return atomicCAS(p, expected, desired);
}
template <class Word> TSL_INLINE Word peek(Word* p) { return *static_cast<volatile Word*>(p); }
#else
template <> struct WordOf<1> { typedef uchar __attribute__((may_alias)) type; };
template <> struct WordOf<2> { typedef ushort __attribute__((may_alias)) type; };
template <> struct WordOf<4> { typedef uint __attribute__((may_alias)) type; };
template <> struct WordOf<8> { typedef ulonglong __attribute__((may_alias)) type; };
template <class Word> TSL_INLINE Word compare_and_swap(Word* p, Word expected, Word desired) {
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class Word> TSL_INLINE Word peek(Word* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
#endif

// *p = change(*p); gives the old value.
template <class T, class F>
TSL_INLINE T atomic_update(T* p, F change) {
  using Word = typename WordOf<sizeof(T)>::type;
  Word* word = reinterpret_cast<Word*>(p);
  Word old = peek(word);
  while (true) {
    const Word seen = compare_and_swap(word, old, slang_bit_cast<Word>(change(slang_bit_cast<T>(old))));
    if (seen == old) return slang_bit_cast<T>(old);
    old = seen;
  }
}

#if TSL_CUDA
// The hardware swaps 16, 32 and 64 bits; a byte goes with its neighbour, which keeps its value. The pair is aligned, so
// it lies in the same allocation.
template <class T, class F>
TSL_INLINE T atomic_update_byte(T* p, F change) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(p);
  const uint shift = (address & 1u) * 8u;
  const ushort pair = atomic_update(reinterpret_cast<ushort*>(address & ~1ull), [&](ushort old) {
    const uchar changed = slang_bit_cast<uchar>(change(slang_bit_cast<T>(uchar(old >> shift))));
    return ushort((old & ~(0xffu << shift)) | (uint(changed) << shift));
  });
  return slang_bit_cast<T>(uchar(pair >> shift));
}
template <class F> TSL_INLINE char atomic_update(char* p, F change) { return atomic_update_byte(p, change); }
template <class F> TSL_INLINE signed char atomic_update(signed char* p, F change) { return atomic_update_byte(p, change); }
template <class F> TSL_INLINE uchar atomic_update(uchar* p, F change) { return atomic_update_byte(p, change); }
template <class F> TSL_INLINE bool atomic_update(bool* p, F change) { return atomic_update_byte(p, change); }
#endif

template <class T> using Argument = typename Undeduced<T>::type;

}  // namespace tsl

#define TSL_ATOMIC(name, expression)                                                       \
  template <class T> TSL_INLINE T name(T* p, tsl::Argument<T> value) {                     \
    return tsl::atomic_update(p, [&](T old) { return T(expression); });                    \
  }
TSL_ATOMIC(atomicAdd, old + value)
TSL_ATOMIC(atomicSub, old - value)
TSL_ATOMIC(atomicMin, value < old ? value : old)
TSL_ATOMIC(atomicMax, value > old ? value : old)
TSL_ATOMIC(atomicAnd, old & value)
TSL_ATOMIC(atomicOr, old | value)
TSL_ATOMIC(atomicXor, old ^ value)
TSL_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
TSL_ATOMIC(atomicDec, old == T(0) || old > value ? value : T(old - 1))
TSL_ATOMIC(atomicExch, value)
#undef TSL_ATOMIC

template <class T> TSL_INLINE T atomicCAS(T* p, tsl::Argument<T> expected, tsl::Argument<T> desired) {
  using Word = typename tsl::WordOf<sizeof(T)>::type;
  return slang_bit_cast<T>(tsl::compare_and_swap(reinterpret_cast<Word*>(p), slang_bit_cast<Word>(expected),
                                                 slang_bit_cast<Word>(desired)));
}

#if TSL_CUDA
TSL_INLINE longlong atomicAdd(longlong* p, longlong value) {
  return longlong(atomicAdd(reinterpret_cast<ulonglong*>(p), ulonglong(value)));
}
TSL_INLINE double atomicExch(double* p, double value) {
  return slang_bit_cast<double>(atomicExch(reinterpret_cast<ulonglong*>(p), slang_bit_cast<ulonglong>(value)));
}
TSL_INLINE __half atomicAdd(__half* p, __half value) {
  __half old;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old.bits) : "l"(p), "h"(value.bits) : "memory");
  return old;
}
#if __CUDA_ARCH__ >= 900
TSL_INLINE __nv_bfloat16 atomicAdd(__nv_bfloat16* p, __nv_bfloat16 value) {
  __nv_bfloat16 old;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old.bits) : "l"(p), "h"(value.bits) : "memory");
  return old;
}
#endif
#else
#define TSL_HOST_ATOMIC(name, builtin)                                                                       \
  TSL_INLINE int name(int* p, int value) { return builtin(p, value, __ATOMIC_RELAXED); }                     \
  TSL_INLINE uint name(uint* p, uint value) { return builtin(p, value, __ATOMIC_RELAXED); }                  \
  TSL_INLINE longlong name(longlong* p, longlong value) { return builtin(p, value, __ATOMIC_RELAXED); }      \
  TSL_INLINE ulonglong name(ulonglong* p, ulonglong value) { return builtin(p, value, __ATOMIC_RELAXED); }
TSL_HOST_ATOMIC(atomicAdd, __atomic_fetch_add)
TSL_HOST_ATOMIC(atomicSub, __atomic_fetch_sub)
TSL_HOST_ATOMIC(atomicAnd, __atomic_fetch_and)
TSL_HOST_ATOMIC(atomicOr, __atomic_fetch_or)
TSL_HOST_ATOMIC(atomicXor, __atomic_fetch_xor)
TSL_HOST_ATOMIC(atomicExch, __atomic_exchange_n)
#undef TSL_HOST_ATOMIC
TSL_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TSL_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TSL_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

namespace tsl {

#if TSL_CUDA && __CUDA_ARCH__ >= 900
TSL_INLINE void add_float2(float* p, float x, float y) {
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "f"(x), "f"(y) : "memory");
}
TSL_INLINE void add_float4(float* p, float x, float y, float z, float w) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "f"(x), "f"(y),
               "f"(z), "f"(w) : "memory");
}

// In vectors of 4 or 2 floats where the address is aligned to them. An odd count is vectors of 2 and one single float, which comes
// first or last by the address. Lanes whose addresses differ in that select other operands of the same instructions: with
// a branch, neighbouring elements of three floats would be added one after the other.
template <int kCount>
TSL_INLINE void add_atomically(float* to, const float (&amounts)[kCount]) {
  const ulonglong address = reinterpret_cast<ulonglong>(to);
  if constexpr (kCount == 1) {
    atomicAdd(to, amounts[0]);
  } else if constexpr (kCount % 2 == 1) {
    const bool is_first = address % 8 != 0;
    for (int i = 0; i + 1 < kCount; i += 2) {
      add_float2(to + i + is_first, is_first ? amounts[i + 1] : amounts[i], is_first ? amounts[i + 2] : amounts[i + 1]);
    }
    atomicAdd(is_first ? to : to + kCount - 1, is_first ? amounts[0] : amounts[kCount - 1]);
  } else if (kCount % 4 == 0 && address % 16 == 0) {
    for (int i = 0; i + 3 < kCount; i += 4) add_float4(to + i, amounts[i], amounts[i + 1], amounts[i + 2], amounts[i + 3]);
  } else if (address % 8 == 0) {
    for (int i = 0; i < kCount; i += 2) add_float2(to + i, amounts[i], amounts[i + 1]);
  } else {
    atomicAdd(to, amounts[0]);
    for (int i = 1; i + 1 < kCount; i += 2) add_float2(to + i, amounts[i], amounts[i + 1]);
    atomicAdd(to + kCount - 1, amounts[kCount - 1]);
  }
}
#endif

// to[i] += amounts[i]: each number is added atomically by itself.
template <int kCount, class S, class M>
TSL_INLINE void add_atomically(S* to, const M (&amounts)[kCount]) {
  for (int i = 0; i < kCount; ++i) atomicAdd(to + i, S(amounts[i]));
}

}  // namespace tsl

// Slang's forms without a result; `order` is a memory order that relaxed atomics do not need.
#define TSL_REDUCE(name, function)                                                                                   \
  template <class T> TSL_INLINE void __slang_atomic_reduce_##name(T* p, tsl::Argument<T> value, int) { function(p, value); }
TSL_REDUCE(add, atomicAdd)
TSL_REDUCE(min, atomicMin)
TSL_REDUCE(max, atomicMax)
TSL_REDUCE(and, atomicAnd)
TSL_REDUCE(or, atomicOr)
TSL_REDUCE(xor, atomicXor)
#undef TSL_REDUCE
template <class T> TSL_INLINE void __slang_atomic_reduce_inc(T* p, int) { atomicAdd(p, T(1)); }
template <class T> TSL_INLINE void __slang_atomic_reduce_dec(T* p, int) { atomicAdd(p, T(-1)); }
