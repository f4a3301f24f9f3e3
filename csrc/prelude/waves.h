// Wave operations as emitted text names them, for both targets, over the primitives shuffle, ballot, match, reduce and
// scan. `mask` says which lanes take part; Slang computes it and hands it through. The names with `Multiple` are
// those of vectors and matrices.
#pragma once

#include "prelude/host_meet.h"
#include "prelude/wave_operators.h"  // before the #if: each file's text stands where it is included first
#if TSL_CUDA
#include "prelude/wave_primitives_cuda.h"
#else
#include "prelude/wave_primitives_host.h"
#endif

TSL_INLINE WarpMask _getLaneLtMask() { return (1u << _getLaneId()) - 1u; }
TSL_INLINE uint _popc(uint x) { return uint(__popc(x)); }

#define TSL_WAVE(name, expression)                                                                 \
  template <class T> TSL_INLINE T _wave##name(WarpMask mask, T value) { return expression; }         \
  template <class T> TSL_INLINE T _wave##name##Multiple(WarpMask mask, T value) { return expression; }
#define TSL_WAVE_OPERATION(name, Op)                                        \
  TSL_WAVE(name, tsl::reduce<tsl::Op>(mask, value))                         \
  TSL_WAVE(Prefix##name, (tsl::scan<tsl::Op, false>(mask, value)))
TSL_WAVE_OPERATION(Sum, WaveAdd)
TSL_WAVE_OPERATION(Product, WaveMultiply)
TSL_WAVE_OPERATION(And, WaveAnd)
TSL_WAVE_OPERATION(Or, WaveOr)
TSL_WAVE_OPERATION(Xor, WaveXor)
TSL_WAVE(Min, tsl::reduce<tsl::WaveMin>(mask, value))
TSL_WAVE(Max, tsl::reduce<tsl::WaveMax>(mask, value))
TSL_WAVE(PrefixExclusiveMin, (tsl::scan<tsl::WaveMin, false>(mask, value)))
TSL_WAVE(PrefixExclusiveMax, (tsl::scan<tsl::WaveMax, false>(mask, value)))
TSL_WAVE(PrefixInclusiveMin, (tsl::scan<tsl::WaveMin, true>(mask, value)))
TSL_WAVE(PrefixInclusiveMax, (tsl::scan<tsl::WaveMax, true>(mask, value)))
TSL_WAVE(ReadFirst, tsl::shuffle(mask, value, __ffs(int(mask)) - 1))
#undef TSL_WAVE_OPERATION
#undef TSL_WAVE

template <class T> TSL_INLINE T _waveShuffleMultiple(WarpMask mask, T value, int lane) { return tsl::shuffle(mask, value, lane); }

template <class T> TSL_INLINE bool _waveAllEqual(WarpMask mask, T value) {
  const WarpMask same = tsl::match(mask, value);
  return tsl::ballot(mask, (same >> (__ffs(int(mask)) - 1) & 1u) == 0u) == 0u;
}
template <class T> TSL_INLINE bool _waveAllEqualMultiple(WarpMask mask, T value) { return _waveAllEqual(mask, value); }

template <class T> TSL_INLINE uint4 _waveMatchScalar(WarpMask mask, T value) { return uint4{tsl::match(mask, value), 0, 0, 0}; }
template <class T> TSL_INLINE uint4 _waveMatchMultiple(WarpMask mask, T value) { return _waveMatchScalar(mask, value); }

// Lanes of a whole wave, or of each cluster of a power of two of lanes, read the lane `delta` ahead, around the end.
template <class T> TSL_INLINE T _slang_waveClusteredRotate(T value, uint delta, uint cluster) {
  const uint lane = _getLaneId(), first = lane & ~(cluster - 1u);
  return tsl::shuffle(0xffffffffu, value, int(first + ((lane + delta) & (cluster - 1u))));
}
template <class T> TSL_INLINE T _slang_waveRotate(T value, uint delta) { return _slang_waveClusteredRotate(value, delta, 32u); }

// Four lanes in a row form a quad.
TSL_INLINE bool _slang_quadAny(bool vote) { return tsl::ballot(0xfu << (_getLaneId() & ~3u), vote) != 0u; }
TSL_INLINE bool _slang_quadAll(bool vote) { return tsl::ballot(0xfu << (_getLaneId() & ~3u), !vote) == 0u; }
