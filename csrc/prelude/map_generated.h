// Inputs of an elementwise function that its loop makes, in no memory.
//
// Note [generated elements]
//   An element of such an input is made of its number i. The first slot says after how many elements the numbers begin again:
//   the samples of vmap have the same. kTslGeneratedWords slots follow for each component of
//     a place           divisor, size, offset, stride: offset + stride * (i / divisor % size)
//   and once for all components of
//     a hash            warmup, seed, hashes: Wang's hash of i times the number of components, warmup times over, then once with
//                       the seed, hashed before if the third word is not 0; each further component is the hash of the last
//     a random number   the same, and two floats in one word: a number between them, by 23 bits of the hash
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

TSL_INLINE uint first_hash(const ulonglong* words, uint number) {
  for (uint k = 0; k < uint(words[0]); ++k) number = wang_hash(number);
  const uint seed = uint(words[1]);
  return wang_hash(number ^ (words[2] != 0 ? wang_hash(seed) : seed));
}

TSL_INLINE longlong generated_place(const ulonglong* words, ulonglong i) {
  const bool is_small = ((i | words[0] | words[1]) >> 32) == 0;
  const ulonglong at = is_small ? uint(i) / uint(words[0]) % uint(words[1]) : i / words[0] % words[1];
  return longlong(words[2]) + longlong(words[3]) * longlong(at);
}

// Rounded in one way alone, so that forward and backward have the same.
TSL_INLINE float random_float(ulonglong ends, uint hash) {
  const float low = slang_bit_cast<float>(uint(ends)), high = slang_bit_cast<float>(uint(ends >> 32));
  const float fraction = float(hash & 0x7fffffu) * 0x1p-23f;
  return __fmaf_rn(high, fraction, low * (1.0f - fraction));
}

// A view of such an input, from one element on.
template <class View> struct MapMade {
  const ulonglong* slots;
  ulonglong first;

  TSL_INLINE void begin_at(const TslArgs& args, ulonglong number) {
    slots = args.slots + View::kSlot;
    first = number;
  }
  TSL_INLINE void make(MapField<View>& field, longlong j) const {
    const ulonglong *const words = slots + 1, number = first + ulonglong(j);
    const ulonglong i = number < slots[0] ? number : number % slots[0];
    if constexpr (View::kAccess == MapAccess::Place) {
      for (int c = 0; c < View::kComponents; ++c) set(field, c, generated_place(words + c * kTslGeneratedWords, i));
    } else {
      uint hash = first_hash(words, uint(i) * View::kComponents);
      for (int c = 0; c < View::kComponents; ++c) {
        if (c > 0) hash = wang_hash(hash);
        if constexpr (View::kAccess == MapAccess::Hash) set(field, c, hash);
        else set(field, c, random_float(words[3], hash));
      }
    }
  }

 private:
  template <class T> static TSL_INLINE void set(MapField<View>& field, int component, T value) {
    field.values[component] = convert<typename View::Memory>(value);
  }
};

}  // namespace tsl
