// Division of integers where C++ leaves the result undefined: by zero, and of the smallest number by -1.
//
// Note [integer division]
//   An NVIDIA GPU has no instruction that divides integers. The sequence that stands for it gives, for all types of 8 to 64 bits,
//     x / 0, x % 0           all bits set: -1, or the largest unsigned number; but 0xffffffff for a number of 64 bits that
//                            needs no more than 32, unsigned
//     smallest / -1          the smallest number
//     smallest % -1          0
//   (where both are wanted of the same two numbers, its compiler makes the remainder of the quotient: then x % 0 is x), where a
//   processor ends the process. So the host tests for these divisors, and gives the same. Literal divisors never come here
//   (Note [guarded operations] in compiler/emit/guarded_operations.h), and known ones make the test vanish. In debug mode both
//   targets report such a division, and go on with that value.
#pragma once

#include "prelude/target.h"

namespace tsl {

template <class T> struct IsInteger { static constexpr bool value = false; };
#define TSL_INTEGER_TYPE(T) template <> struct IsInteger<T> { static constexpr bool value = true; };
TSL_INTEGER_TYPE(char) TSL_INTEGER_TYPE(signed char) TSL_INTEGER_TYPE(uchar) TSL_INTEGER_TYPE(short) TSL_INTEGER_TYPE(ushort)
TSL_INTEGER_TYPE(int) TSL_INTEGER_TYPE(uint) TSL_INTEGER_TYPE(longlong) TSL_INTEGER_TYPE(ulonglong)
TSL_INTEGER_TYPE(int64_t) TSL_INTEGER_TYPE(uint64_t)
#undef TSL_INTEGER_TYPE

template <class T> constexpr bool kIsInteger = IsInteger<T>::value;
template <class T> constexpr bool kIsSigned = T(-1) < T(1);

template <class T> TSL_INLINE constexpr T divided_by_zero(T a) {
  if constexpr (sizeof(T) == 8) return ulonglong(a) >> 32 == 0 ? T(0xffffffffu) : T(-1);
  else return T(-1);
}

// One test finds both divisors, 0 and -1.
template <class T> TSL_INLINE constexpr bool is_plain_divisor(T b) {
  if constexpr (!kIsSigned<T>) return b != T(0);
  else if constexpr (sizeof(T) == 8) return ulonglong(b) + 1u > 1u;
  else return uint(b) + 1u > 1u;
}

template <class T> TSL_INLINE constexpr T quotient(T a, T b) {
#if TSL_CUDA
  return T(a / b);
#else
  if (__builtin_expect(is_plain_divisor(b), true)) return T(a / b);
  return b == T(0) ? divided_by_zero(a) : T(0ull - ulonglong(a));
#endif
}

template <class T> TSL_INLINE constexpr T rest(T a, T b) {
#if TSL_CUDA
  return T(a % b);
#else
  if (__builtin_expect(is_plain_divisor(b), true)) return T(a % b);
  return b == T(0) ? divided_by_zero(a) : T(0);
#endif
}

// Of numbers, and of all that has the operator.
template <class A, class B> TSL_INLINE constexpr auto divide(const A& a, const B& b) {
  if constexpr (kIsInteger<A> && IsSame<A, B>::value) return quotient<A>(a, b);
  else if constexpr (kIsInteger<A> && kIsInteger<B>) return quotient<decltype(a / b)>(a, b);
  else return a / b;
}
template <class A, class B> TSL_INLINE constexpr auto remainder(const A& a, const B& b) {
  if constexpr (kIsInteger<A> && IsSame<A, B>::value) return rest<A>(a, b);
  else if constexpr (kIsInteger<A> && kIsInteger<B>) return rest<decltype(a % b)>(a, b);
  else return a % b;
}

// `a / Divide{...} / b`, and `a % Remainder{...} % b`. Nothing is said where they may stand before their branch: Note
// [speculated indices] in local_index.h.
struct ThreadBase;
#if TSL_CHECKS == 2 && !TSL_SPECULATES
struct Divide { const ThreadBase* thread; };
struct Remainder { const ThreadBase* thread; };
template <class A, class B> TSL_INLINE void check_division(const ThreadBase* thread, const A& a, const B& b);  // checks.h
#define TSL_CHECK_DIVISION(left, right) check_division(left.how.thread, left.value, right)
#else
struct Divide {};
struct Remainder {};
#define TSL_CHECK_DIVISION(left, right)
#endif
template <class A, class How> struct Dividend {
  A value;
  How how;
};
template <class A> TSL_INLINE constexpr Dividend<A, Divide> operator/(A a, Divide how) { return {a, how}; }
template <class A> TSL_INLINE constexpr Dividend<A, Remainder> operator%(A a, Remainder how) { return {a, how}; }
template <class A, class B> TSL_INLINE constexpr auto operator/(Dividend<A, Divide> a, B b) {
  TSL_CHECK_DIVISION(a, b);
  return divide(a.value, b);
}
template <class A, class B> TSL_INLINE constexpr auto operator%(Dividend<A, Remainder> a, B b) {
  TSL_CHECK_DIVISION(a, b);
  return remainder(a.value, b);
}
#undef TSL_CHECK_DIVISION

}  // namespace tsl

#if TSL_CHECKS == 2 && !TSL_SPECULATES
#define TSL_DIVIDE / tsl::Divide{this} /
#define TSL_REMAINDER % tsl::Remainder{this} %
#elif TSL_CUDA
#define TSL_DIVIDE /
#define TSL_REMAINDER %
#else
#define TSL_DIVIDE / tsl::Divide{} /
#define TSL_REMAINDER % tsl::Remainder{} %
#endif
