// The two targets of the prelude, NVRTC (or nvcc) and a host compiler, and the words that differ between them. Whoever
// assembles the source makes `__device__` mean TSL_EMITTED around the emitted body: always inlined, so that the compiler
// sees one straight-line function per kernel and a loop over threads can vectorise.
//
// Note [inlined at once]
//   A host kernel's functions call each other five or ten deep. GCC inlines `always_inline` functions level by level, and
//   optimises the growing body again at each level. Loops vectorise thanks to that, but it takes most of the compile time of
//   large kernels, whose loops do not vectorise. For those the run-time defines TSL_AT_ONCE: emitted functions are then
//   ordinary ones, each optimised by itself; the function that runs a thread (TSL_FLAT) inlines all of them in one round, and
//   the function that the run-time calls (TSL_ROOT) inlines that one in a second round. After the first round alone, structs of
//   views are not all split into registers. Clang's `flatten` inlines one level only, so Clang does not get this.
//
// Nothing is included, here or in any file of the prelude: NVRTC has no headers at run time, and the host compiler must
// be done with the whole of it in a few hundredths of a second. Names that emitted text or users' text may say are global;
// our own are in namespace tsl or begin with Tsl/tsl_.
#pragma once

#ifndef TSL_AT_ONCE
#define TSL_AT_ONCE 0
#endif

#ifdef __CUDACC__
#define TSL_CUDA 1
#define TSL_INLINE __attribute__((device)) __forceinline__
#define TSL_SHARED __shared__
#define TSL_EMITTED __attribute__((device)) __forceinline__
#define TSL_FLAT TSL_INLINE
#define TSL_COPY memcpy
#pragma nv_diag_suppress 1444  // double4 and longlong4 are deprecated; emitted text names them
#pragma nv_diag_suppress 177   // emitted text declares variables that it does not use
#else
#define TSL_CUDA 0
#define TSL_INLINE inline __attribute__((always_inline))
// A block runs on one thread of the pool at a time. Host sources are compiled with -fvisibility=hidden: statics of two
// kernels with equal names would otherwise be one object once both are loaded.
#define TSL_SHARED static thread_local
#if !TSL_AT_ONCE || defined(__clang__)
#define TSL_EMITTED __attribute__((always_inline))
#define TSL_FLAT TSL_INLINE
#define TSL_ROOT
#else  // Note [inlined at once]
#define TSL_EMITTED inline
#define TSL_FLAT inline __attribute__((flatten))
#define TSL_ROOT __attribute__((flatten))
#endif
#define TSL_COPY __builtin_memcpy
#define __device__ __attribute__((always_inline))
#define __global__ __attribute__((always_inline))
#define __host__
#define __forceinline__
#define __noinline__
#define __constant__ static
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#endif

#ifndef TSL_FLAT_GRID
#define TSL_FLAT_GRID 0
#endif
#ifndef TSL_LANES
#define TSL_LANES 1
#endif
#ifndef TSL_TILED_WAVES
#define TSL_TILED_WAVES 0
#endif
#ifndef TSL_WRAPS
#define TSL_WRAPS 0
#endif
#ifndef TSL_SHARED_SUMS
#define TSL_SHARED_SUMS 0
#endif
#ifndef TSL_CHECKS
#define TSL_CHECKS 0
#endif
#ifndef TSL_SPECULATES
#define TSL_SPECULATES 0
#endif
#define TSL_LOCAL_INDICES (TSL_CHECKS || TSL_SPECULATES)  // are looked at: Note [local indices] in local_index.h
#ifndef TSL_POLLS
#define TSL_POLLS 0
#endif
#define TSL_NOTES_FAULTS (TSL_CHECKS || TSL_POLLS)
#ifndef TSL_LOCATE
#define TSL_LOCATE 0
#endif
#ifndef TSL_WAVES
#define TSL_WAVES 0
#endif
#ifndef TSL_SCATTERED_WAVES
#define TSL_SCATTERED_WAVES 0
#endif
#ifndef TSL_BARRIERS
#define TSL_BARRIERS 0
#endif

// Behind a lambda's parameters: marks are exact only where everything is inlined.
#define TSL_INLINE_LAMBDA __attribute__((always_inline))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef long long longlong;
typedef unsigned long long ulonglong;

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;  // as the C library of 64-bit Linux has it, so that users' text may include that
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef const char* String;  // the arguments of printf stand in a struct where derivatives are made
#if !TSL_CUDA
typedef __SIZE_TYPE__ size_t;
#endif
static_assert(sizeof(int64_t) == 8 && sizeof(void*) == 8, "the prelude is written for 64-bit targets");

#if !TSL_CUDA
extern "C" int printf(const char* format, ...);  // as the C library declares it
TSL_INLINE void __trap() { __builtin_trap(); }
TSL_INLINE void __brkpt() { __builtin_trap(); }
#endif

namespace tsl {

constexpr double kInfinity = __builtin_bit_cast(double, 0x7ff0000000000000ull);
#define SLANG_INFINITY float(tsl::kInfinity)  // what emitted text calls it; NaN is `(0.0 / 0.0)` there

template <bool kCondition, class T = void> struct EnableIf {};
template <class T> struct EnableIf<true, T> { using type = T; };

template <class A, class B> struct IsSame { static constexpr bool value = false; };
template <class A> struct IsSame<A, A> { static constexpr bool value = true; };

template <bool kCondition, class A, class B> struct Choose { using type = A; };
template <class A, class B> struct Choose<false, A, B> { using type = B; };

// The argument type of a call in which T is to be taken from another argument.
template <class T> struct Undeduced { using type = T; };

}  // namespace tsl

template <class To, class From>
TSL_INLINE constexpr To slang_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "slang_bit_cast: the types must have the same size");
  return __builtin_bit_cast(To, from);
}
