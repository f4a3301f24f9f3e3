// What the loop around a mapped function is made of: Note [map loops] in backend/backend.h.
#pragma once

#include "prelude/kernel_base.h"

namespace tsl {

// Between a component's type in the function and that in memory.
template <class To, class From>
TSL_INLINE To convert(From value) {
  if constexpr (IsSame<To, From>::value) return value;
  else if constexpr (!IsSame<SumOf<To>, To>::value || !IsSame<SumOf<From>, From>::value) return To(float(value));
  else return To(value);
}

TSL_INLINE ulonglong map_total(const TslArgs& args) {
  return args.dims[kTslMapTotal] | ulonglong(args.dims[kTslMapTotal + 1]) << 32;
}

template <class S, int kCount>
TSL_INLINE void load_scalar(const TslArgs& args, int view, int slot, S (&values)[kCount]) {
  const S* data = reinterpret_cast<const S*>(args.views[view].data);
  for (int c = 0; c < kCount; ++c) values[c] = data ? data[c] : *reinterpret_cast<const S*>(&args.slots[slot + c]);
}

// The coordinates of the loop's element i, by the sizes in dims.
struct MapPlace {
  uint at[kTslMaxDims];

  TSL_INLINE MapPlace(const TslArgs& args, ulonglong i) {
    if (i >> 32) divide(args, i);
    else divide(args, uint(i));
  }
  TSL_INLINE longlong offset(const TslView& view) const {
    longlong bytes = 0;
    for (uint d = 0; d < kTslMaxDims; ++d) bytes += longlong(at[d]) * view.strides[d];
    return bytes;
  }
  // The innermost dimension alone.
  TSL_INLINE ulonglong left_in_row(const TslArgs& args) const {
    const uint inner = args.dims[kTslMapRank] - 1;
    return args.dims[kTslMapSizes + inner] - at[inner];
  }
  TSL_INLINE longlong row_stride(const TslArgs& args, const TslView& view) const {
    return view.strides[args.dims[kTslMapRank] - 1];
  }

 private:
  template <class I> TSL_INLINE void divide(const TslArgs& args, I i) {
    const uint rank = args.dims[kTslMapRank];
    for (uint d = kTslMaxDims; d-- > 0;) {
      at[d] = 0;
      if (d >= rank) continue;
      const uint size = args.dims[kTslMapSizes + d];
      const I outer = i / size;
      at[d] = uint(i - outer * size);
      i = outer;
    }
  }
};

#if TSL_CUDA

template <> struct WordOf<16> { using type = uint4; };
template <> struct WordOf<1> { using type = uchar; };

// The widest word of which so many bytes are a multiple.
constexpr int word_bytes(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

template <class W> TSL_INLINE W load_word(const W* from) {
#if TSL_INDEPENDENT
  return __ldg(from);
#else
  return *from;
#endif
}

// The elements first, ..., first + kLanes - 1, which are aligned to the word they fill; behind the end, the last one again.
template <int kLanes, int kCount, class S>
TSL_INLINE void load_lanes(const uchar* data, ulonglong first, ulonglong total, S (&values)[kLanes * kCount]) {
  const S* from = reinterpret_cast<const S*>(data) + first * kCount;
  if (kLanes == 1) {
    for (int c = 0; c < kCount; ++c) values[c] = from[c];
  } else if (first + kLanes <= total) {
    using Word = typename WordOf<word_bytes(sizeof values)>::type;
    Word words[sizeof values / sizeof(Word)];
    for (int w = 0; w < int(sizeof values / sizeof(Word)); ++w) words[w] = load_word(reinterpret_cast<const Word*>(from) + w);
    TSL_COPY(values, words, sizeof values);
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      const ulonglong there = first + lane < total ? lane : total - 1 - first;
      for (int c = 0; c < kCount; ++c) values[lane * kCount + c] = from[there * kCount + c];
    }
  }
}

template <int kLanes, int kCount, class S>
TSL_INLINE void store_lanes(uchar* data, ulonglong first, ulonglong total, const S (&values)[kLanes * kCount]) {
  S* to = reinterpret_cast<S*>(data) + first * kCount;
  if (kLanes == 1) {
    for (int c = 0; c < kCount; ++c) to[c] = values[c];
  } else if (first + kLanes <= total) {
    using Word = typename WordOf<word_bytes(sizeof values)>::type;
    Word words[sizeof values / sizeof(Word)];
    TSL_COPY(words, values, sizeof values);
    for (int w = 0; w < int(sizeof values / sizeof(Word)); ++w) reinterpret_cast<Word*>(to)[w] = words[w];
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (first + lane >= total) break;
      for (int c = 0; c < kCount; ++c) to[lane * kCount + c] = values[lane * kCount + c];
    }
  }
}

template <class S, int kCount>
TSL_INLINE void load_at(const TslView& view, const MapPlace& place, S (&values)[kCount]) {
  const S* from = reinterpret_cast<const S*>(view.data + place.offset(view));
  for (int c = 0; c < kCount; ++c) values[c] = from[c];
}

template <int kCount, class S> TSL_INLINE void copy_components(S* to, const S* from) {
  for (int c = 0; c < kCount; ++c) to[c] = from[c];
}
template <int kCount, class S> TSL_INLINE void add_components(S* to, const S* from) {
  for (int c = 0; c < kCount; ++c) to[c] += from[c];
}

// The block's sums go to its row, added up in an order that is always the same.
template <int kThreads, int kCount, class S>
TSL_INLINE void store_block_sum(uchar* rows, const S (&sums)[kCount]) {
  constexpr int kWaves = kThreads / 32;
  __shared__ S of_wave[kWaves];
  for (int c = 0; c < kCount; ++c) {
    S sum = sums[c];
    for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
    __syncthreads();  // the last component's sums have been read
    if (threadIdx.x % 32 == 0) of_wave[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kWaves; ++w) sum += of_wave[w];
      reinterpret_cast<S*>(rows)[ulonglong(blockIdx.x) * kCount + c] = sum;
    }
  }
}

#endif

}  // namespace tsl
