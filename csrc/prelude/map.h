// What the loop around an elementwise function is made of: Note [map loops] in backend/backend.h.
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

// Coordinates in the first `rank` of the dims' sizes. Most often there is one, and nothing to divide.
struct MapPlace {
  uint at[kTslMaxDims];
  bool is_line;

  TSL_INLINE MapPlace(const TslArgs& args, ulonglong i, uint rank) : is_line(rank == 1) {
    if (is_line) at[0] = uint(i);
    else if (i >> 32) divide(args, i, rank);
    else divide(args, uint(i), rank);
  }
  TSL_INLINE longlong offset(const TslView& view) const {
    if (is_line) return longlong(at[0]) * view.strides[0];
    longlong bytes = 0;
    for (uint d = 0; d < kTslMaxDims; ++d) bytes += longlong(at[d]) * view.strides[d];
    return bytes;
  }

 private:
  template <class I> TSL_INLINE void divide(const TslArgs& args, I i, uint rank) {
    for (uint d = kTslMaxDims; d-- > 0;) {
      at[d] = 0;
      if (d >= rank) continue;
      if (d == 0) {
        at[0] = uint(i);
        continue;
      }
      const uint size = args.dims[kTslMapSizes + d];
      const I outer = i / size;
      at[d] = uint(i - outer * size);
      i = outer;
    }
  }
};

TSL_INLINE uint map_rank(const TslArgs& args) { return args.dims[kTslMapRank]; }
TSL_INLINE uint row_length(const TslArgs& args) { return args.dims[kTslMapSizes + map_rank(args) - 1]; }
TSL_INLINE longlong row_stride(const TslArgs& args, int view) { return args.views[view].strides[map_rank(args) - 1]; }

#if TSL_CUDA

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

// The rows and columns that a thread of a tiled loop takes: `lanes` columns from `column` on, of rows `first_row`,
// first_row + rows_at_once, ...
struct MapTile {
  ulonglong rows, first_row;
  uint columns, column, width, across, rows_each, rows_at_once;
  uint part;  // of the parts of its rows: the wave's, or where several rows share a wave, the tile's

  TSL_INLINE MapTile(const TslArgs& args, uint lanes) {
    const uint log2 = args.dims[kTslMapWidth], tiles = args.dims[kTslMapColumns];
    rows = args.dims[kTslMapRows] | ulonglong(args.dims[kTslMapRows + 1]) << 32;
    columns = row_length(args);
    rows_each = args.dims[kTslMapRowsEach];
    rows_at_once = blockDim.x >> log2;
    width = 1u << log2;
    across = threadIdx.x & (width - 1);
    const uint tile = blockIdx.x % tiles;
    column = (tile * width + across) * lanes;
    first_row = ulonglong(blockIdx.x / tiles) * rows_at_once * rows_each + (threadIdx.x >> log2);
    part = width > 32 ? tile * (width / 32) + across / 32 : tile;
  }
  TSL_INLINE uint parts(const TslArgs& args) const {
    return args.dims[kTslMapColumns] * (width > 32 ? width / 32 : 1u);
  }
};

template <int kLanes, int kCount, class S>
TSL_INLINE void load_row(const TslView& view, const MapPlace& place, uint column, S (&values)[kLanes * kCount]) {
  load_lanes<kLanes, kCount>(view.data + place.offset(view), column, ulonglong(column) + kLanes, values);
}
template <int kLanes, int kCount, class S>
TSL_INLINE void load_column(const TslView& view, const MapPlace& place, S (&values)[kLanes * kCount]) {
  const S* from = reinterpret_cast<const S*>(view.data + place.offset(view));
  for (int c = 0; c < kCount; ++c) {
    const S value = from[c];
    for (int lane = 0; lane < kLanes; ++lane) values[lane * kCount + c] = value;
  }
}
template <int kLanes, int kCount, class S>
TSL_INLINE void load_strided(const TslView& view, const MapPlace& place, uint column, longlong stride,
                             S (&values)[kLanes * kCount]) {
  const uchar* row = view.data + place.offset(view);
  for (int lane = 0; lane < kLanes; ++lane) {
    const S* from = reinterpret_cast<const S*>(row + longlong(column + lane) * stride);
    for (int c = 0; c < kCount; ++c) values[lane * kCount + c] = from[c];
  }
}

// What the threads beside each other in a row have together goes to their part of it. All threads of a wave are here.
template <int kCount, class S>
TSL_INLINE void store_row_sum(uchar* parts, const TslArgs& args, const MapTile& tile, ulonglong row, const S (&sums)[kCount]) {
  const int together = tile.width < 32 ? int(tile.width) : 32;
  for (int c = 0; c < kCount; ++c) {
    S sum = sums[c];
    for (int delta = together / 2; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta, together);
    if (tile.across % together == 0 && row < tile.rows) {
      reinterpret_cast<S*>(parts)[(row * tile.parts(args) + tile.part) * kCount + c] = sum;
    }
  }
}

// What the threads below each other in a tile have together goes to the tile's part of the sums, added up in an order that is
// always the same. All threads of the block are here.
template <int kThreads, int kLanes, int kCount, class S>
TSL_INLINE void store_column_sums(uchar* parts, const MapTile& tile, const S (&sums)[kLanes * kCount]) {
  __shared__ S of_thread[kThreads];
  const ulonglong part = tile.first_row / (ulonglong(tile.rows_at_once) * tile.rows_each);
  S* to = reinterpret_cast<S*>(parts) + (part * tile.columns + tile.column) * kCount;
  for (int i = 0; i < kLanes * kCount; ++i) {
    S sum = sums[i];
    __syncthreads();  // the last one's sums have been read
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= tile.width || tile.column >= tile.columns) continue;
    for (uint below = tile.width; below < kThreads; below += tile.width) sum += of_thread[threadIdx.x + below];
    to[i] = sum;
  }
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
