// The primitives of waves on the GPU, from the hardware's shuffles. Every function with a `mask` is called by all lanes of that
// mask together. A value of any type travels as 32-bit words.
#pragma once

#include "prelude/wave_operators.h"

TSL_INLINE uint _getLaneId() {
  uint lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
TSL_INLINE WarpMask _getActiveMask() { return __activemask(); }

namespace tsl {

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
  for (int i = 0; i < Words<T>::count; ++i) words.word[i] = __shfl_sync(mask, words.word[i], lane);
  memcpy(&value, &words, sizeof(T));
  return value;
}

TSL_INLINE WarpMask ballot(WarpMask mask, bool vote) { return __ballot_sync(mask, vote); }

// Lanes of the mask whose value has the same bits.
template <class T> TSL_INLINE WarpMask match(WarpMask mask, T value) {
  const Words<T> words = words_of(value);
  WarpMask same = mask;
  for (int i = 0; i < Words<T>::count; ++i) same &= __match_any_sync(mask, words.word[i]);
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
#define TSL_REDUCE(Op, name)                                                                                       \
  template <> TSL_INLINE uint reduce<Op>(WarpMask mask, uint value) { return __reduce_##name##_sync(mask, value); }
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
