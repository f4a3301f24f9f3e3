// The primitives of waves on the host, all over one exchange (host_threads.h): each lane gets every lane's value and
// combines them for itself, in the order of lanes. And CUDA's own names for them.
#pragma once

#include "prelude/host_meet.h"
#include "prelude/wave_operators.h"

constexpr int warpSize = kTslWaveSize;

TSL_INLINE uint _getLaneId() { return tsl::own_lane(); }

namespace tsl {

TSL_INLINE WarpMask ballot(WarpMask mask, bool vote) {
  bool votes[kTslWaveSize];
  const WarpMask meeting = exchange(mask, kVote, vote, votes);
  WarpMask result = 0;
  for (int lane = 0; lane < kTslWaveSize; ++lane) {
    if ((meeting >> lane & 1u) && votes[lane]) result |= 1u << lane;
  }
  return result;
}

// From a lane that is not there: the own value.
template <class T> TSL_INLINE T shuffle(WarpMask mask, T value, int lane) {
  T values[kTslWaveSize];
  const WarpMask meeting = exchange(mask, kShuffle, value, values);
  lane &= kTslWaveSize - 1;
  return meeting >> lane & 1u ? values[lane] : value;
}

template <class T> TSL_INLINE WarpMask match(WarpMask mask, T value) {
  T values[kTslWaveSize];
  const WarpMask meeting = exchange(mask, kShuffle, value, values);
  WarpMask same = 0;
  for (int lane = 0; lane < kTslWaveSize; ++lane) {
    if ((meeting >> lane & 1u) && __builtin_memcmp(&values[lane], &value, sizeof(T)) == 0) same |= 1u << lane;
  }
  return same;
}

template <class Op, class T> TSL_INLINE T reduce(WarpMask mask, T value) {
  T values[kTslWaveSize];
  WarpMask rest = exchange(mask, kShuffle, value, values);
  T result = values[__builtin_ctz(rest)];
  while (rest &= rest - 1u) result = combine<Op>(result, values[__builtin_ctz(rest)]);
  return result;
}

template <class Op, bool kInclusive, class T> TSL_INLINE T scan(WarpMask mask, T value) {
  T values[kTslWaveSize];
  const uint own = _getLaneId();
  const WarpMask below = exchange(mask, kShuffle, value, values) & ((1u << own) - 1u);
  T result = identity<Op, T>();
  for (WarpMask rest = below; rest; rest &= rest - 1u) {
    const T& other = values[__builtin_ctz(rest)];
    result = rest == below ? other : combine<Op>(result, other);
  }
  if (!kInclusive) return result;
  return below ? combine<Op>(result, value) : value;
}

}  // namespace tsl

TSL_INLINE uint __ballot_sync(uint mask, bool vote) { return tsl::ballot(mask, vote); }
TSL_INLINE int __any_sync(uint mask, bool vote) { return tsl::ballot(mask, vote) != 0; }
TSL_INLINE int __all_sync(uint mask, bool vote) { return tsl::ballot(mask, !vote) == 0; }
TSL_INLINE void __syncwarp(uint mask = 0xffffffffu) {
  bool values[kTslWaveSize];
  tsl::exchange(mask, tsl::kSynchronize, true, values);
}
TSL_INLINE uint __activemask() {
  bool values[kTslWaveSize];
  return tsl::exchange(0, tsl::kActive, true, values);
}
TSL_INLINE WarpMask _getActiveMask() { return __activemask(); }

// `width` splits a wave into segments; a source outside the own segment gives the own value.
template <class T> TSL_INLINE T __shfl_sync(uint mask, T value, int lane, int width = 32) {
  const int segment = int(_getLaneId()) & ~(width - 1);
  return tsl::shuffle(mask, value, segment + (lane & (width - 1)));
}
template <class T> TSL_INLINE T __shfl_up_sync(uint mask, T value, uint delta, int width = 32) {
  const int own = int(_getLaneId()), from = own - int(delta);
  return tsl::shuffle(mask, value, from < (own & ~(width - 1)) ? own : from);
}
template <class T> TSL_INLINE T __shfl_down_sync(uint mask, T value, uint delta, int width = 32) {
  const int own = int(_getLaneId()), from = own + int(delta);
  return tsl::shuffle(mask, value, from > (own | (width - 1)) ? own : from);
}
template <class T> TSL_INLINE T __shfl_xor_sync(uint mask, T value, int bits, int width = 32) {
  const int own = int(_getLaneId()), from = own ^ bits;
  return tsl::shuffle(mask, value, from > (own | (width - 1)) ? own : from);
}
template <class T> TSL_INLINE uint __match_any_sync(uint mask, T value) { return tsl::match(mask, value); }
template <class T> TSL_INLINE uint __match_all_sync(uint mask, T value, int* all) {
  const uint same = tsl::match(mask, value);
  *all = tsl::ballot(mask, same != mask) == 0;
  return *all ? mask : 0u;
}
#define TSL_REDUCE(Op, name) \
  template <class T> TSL_INLINE T __reduce_##name##_sync(uint mask, T value) { return tsl::reduce<tsl::Op>(mask, value); }
TSL_REDUCE(WaveAdd, add)
TSL_REDUCE(WaveMin, min)
TSL_REDUCE(WaveMax, max)
TSL_REDUCE(WaveAnd, and)
TSL_REDUCE(WaveOr, or)
TSL_REDUCE(WaveXor, xor)
#undef TSL_REDUCE
