// Inputs of an elementwise function that its loop makes.
//
// Note [generated elements]
//   An input may be made of the element's number i. Its first slot says how, the second how many elements there are until the
//   numbers begin again (samples of vmap have the same), kTslGeneratedWords more how each component is made:
//     0, a place           words (divisor, size, offset, stride): offset + stride * (i / divisor % size)
//     1, a hash            words (factor, warmup, seed, again): Wang's hash of i * factor, warmup times over, then once with
//                          the seed, then again times over
//     2, a random number   of 23 bits of the same; words 4 and 5 are the bits of the floats that it lies between
//   All numbers are SlangPy's.
#pragma once

#include "prelude/map.h"

namespace tsl {

TSL_INLINE uint wang_hash(uint seed) {
  seed = (seed ^ 61u) ^ (seed >> 16);
  seed *= 9u;
  seed ^= seed >> 4;
  seed *= 0x27d4eb2du;
  return seed ^ (seed >> 15);
}

TSL_INLINE uint generated_hash(const ulonglong* words, ulonglong i) {
  uint hash = uint(i) * uint(words[0]);
  for (uint k = 0; k < uint(words[1]); ++k) hash = wang_hash(hash);
  hash = wang_hash(hash ^ uint(words[2]));
  for (uint k = 0; k < uint(words[3]); ++k) hash = wang_hash(hash);
  return hash;
}

TSL_INLINE longlong generated_place(const ulonglong* words, ulonglong i) {
  const bool is_small = ((i | words[0] | words[1]) >> 32) == 0;
  const ulonglong at = is_small ? uint(i) / uint(words[0]) % uint(words[1]) : i / words[0] % words[1];
  return longlong(words[2]) + longlong(words[3]) * longlong(at);
}

TSL_INLINE float generated_float(const ulonglong* words, ulonglong i) {
  const float fraction = float(generated_hash(words, i) & 0x7fffffu) / 8388608.0f;
  const uint bits[2] = {uint(words[4]), uint(words[5])};
  float ends[2];
  TSL_COPY(ends, bits, sizeof ends);
  return ends[0] * (1 - fraction) + ends[1] * fraction;
}

template <class View> TSL_INLINE const ulonglong* generator_slots(const TslArgs& args) {
  return reinterpret_cast<const ulonglong*>(&args.slots[View::kSlot]);
}

template <class View> TSL_INLINE void generate(const ulonglong* slots, ulonglong i, MapField<View>& field) {
  using S = typename View::Memory;
  if (i >= slots[1]) i %= slots[1];
  for (int c = 0; c < View::kComponents; ++c) {
    const ulonglong* const words = slots + 2 + c * kTslGeneratedWords;
    if (slots[0] == 0) field.values[c] = convert<S>(generated_place(words, i));
    else if (slots[0] == 1) field.values[c] = convert<S>(generated_hash(words, i));
    else field.values[c] = convert<S>(generated_float(words, i));
  }
}

}  // namespace tsl
