// The primitives of waves on the GPU, from the hardware's shuffles. Every function with a `mask` is called by all lanes of that
// mask together. A value of any type travels as 32-bit words.
//
// Note [scattered waves]
//   The hardware exchanges values of lanes that are at one instruction. Where lanes of one operation may stand in several places
//   of the text, it lies in functions that are not inlined, so that all of them come to one instruction.
#pragma once

#include "prelude/wave_operators.h"

TSL_INLINE uint _getLaneId() {
  uint lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
TSL_INLINE WarpMask _getActiveMask() { return __activemask(); }

#if TSL_SCATTERED_WAVES
#define TSL_EXCHANGE __device__ __noinline__ static
#else
#define TSL_EXCHANGE TSL_INLINE
#endif

namespace tsl {

TSL_EXCHANGE uint shuffle_word(WarpMask mask, uint word, int lane) { return __shfl_sync(mask, word, lane); }
TSL_EXCHANGE WarpMask match_word(WarpMask mask, uint word) { return __match_any_sync(mask, word); }
TSL_EXCHANGE WarpMask ballot(WarpMask mask, bool vote) { return __ballot_sync(mask, vote); }

template <class T> struct Words {
  static constexpr int count = (sizeof(T) + 3) / 4;
  uint word[count];
};

template <class T> TSL_INLINE Words<T> words_of(const T& value) {
  Words<T> words{};
  memcpy(&words, &value, sizeof(T));
  return words;
}

template <class T> TSL_INLINE T shuffle(WarpMask mask, T value, int lane) {
  Words<T> words = words_of(value);
  for (int i = 0; i < Words<T>::count; ++i) words.word[i] = shuffle_word(mask, words.word[i], lane);
  memcpy(&value, &words, sizeof(T));
  return value;
}

// Lanes of the mask whose value has the same bits.
template <class T> TSL_INLINE WarpMask match(WarpMask mask, T value) {
  const Words<T> words = words_of(value);
  WarpMask same = mask;
  for (int i = 0; i < Words<T>::count; ++i) same &= match_word(mask, words.word[i]);
  return same;
}

// Lanes 0 to n - 1 and no others: then a tree of five steps does; else lane by lane.
TSL_INLINE bool is_contiguous(WarpMask mask) { return (mask & (mask + 1u)) == 0u; }

template <class Op, class T> TSL_INLINE T reduce(WarpMask mask, T value) {
  if (is_contiguous(mask)) {
    const uint lane = _getLaneId(), count = __popc(mask);
    for (uint step = 1; step < 32; step *= 2) {
      const T other = shuffle(mask, value, (lane + step) & 31u);
      if (lane + step < count) value = combine<Op>(value, other);
    }
    return shuffle(mask, value, 0);
  }
  T result = shuffle(mask, value, __ffs(mask) - 1);
  for (WarpMask rest = mask & (mask - 1u); rest; rest &= rest - 1u) {
    result = combine<Op>(result, shuffle(mask, value, __ffs(rest) - 1));
  }
  return result;
}

#if __CUDA_ARCH__ >= 800
#define TSL_REDUCE(Op, name)                                                                                             \
  TSL_EXCHANGE uint reduce_words_##name(WarpMask mask, uint value) { return __reduce_##name##_sync(mask, value); }       \
  template <> TSL_INLINE uint reduce<Op>(WarpMask mask, uint value) { return reduce_words_##name(mask, value); }
TSL_REDUCE(WaveAdd, add)
TSL_REDUCE(WaveMin, min)
TSL_REDUCE(WaveMax, max)
TSL_REDUCE(WaveAnd, and)
TSL_REDUCE(WaveOr, or)
TSL_REDUCE(WaveXor, xor)
#undef TSL_REDUCE
#endif

// Of the lanes below the own one, and of the own one too if kInclusive.
template <class Op, bool kInclusive, class T> TSL_INLINE T scan(WarpMask mask, T value) {
  const uint lane = _getLaneId();
  if (is_contiguous(mask)) {
    for (uint step = 1; step < 32; step *= 2) {
      const T other = shuffle(mask, value, (lane - step) & 31u);
      if (lane >= step) value = combine<Op>(other, value);
    }
    if (kInclusive) return value;
    value = shuffle(mask, value, (lane - 1u) & 31u);
    return lane == 0 ? identity<Op, T>() : value;
  }
  T result = identity<Op, T>();
  bool first = true;
  for (WarpMask rest = mask; rest; rest &= rest - 1u) {
    const uint from = __ffs(rest) - 1;
    const T other = shuffle(mask, value, from);
    if (from < lane || (kInclusive && from == lane)) result = first ? other : combine<Op>(result, other);
    first = first && !(from < lane);
  }
  return result;
}

}  // namespace tsl

// CUDA has no shuffles of these.
TSL_INLINE __half __shfl_sync(uint mask, __half value, int lane) { return tsl::shuffle(mask, value, lane); }
TSL_INLINE __nv_bfloat16 __shfl_sync(uint mask, __nv_bfloat16 value, int lane) { return tsl::shuffle(mask, value, lane); }

#if TSL_SCATTERED_WAVES
namespace tsl {
// `width` splits a wave into segments.
template <class T> TSL_INLINE T shuffle(WarpMask mask, T value, int lane, int width) {
  return shuffle(mask, value, (int(_getLaneId()) & ~(width - 1)) + (lane & (width - 1)));
}
}  // namespace tsl
#define __shfl_sync tsl::shuffle
#define __match_any_sync tsl::match
#define __ballot_sync tsl::ballot
#define __any_sync(mask, vote) (tsl::ballot(mask, vote) != 0u)
#define __all_sync(mask, vote) (tsl::ballot(mask, !(vote)) == 0u)
#endif
