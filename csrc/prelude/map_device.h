// The loop over elements on a GPU: Note [map loops] in source/kernel_source.h. A thread loads so many elements at once as there are
// lanes, and runs the function for each of them.
#pragma once

#include "prelude/map.h"
#include "prelude/map_generated.h"

#if TSL_CUDA

namespace tsl {

template <class W> TSL_INLINE W load_vector(const W* from) {
#if TSL_INDEPENDENT
  return __ldg(from);
#else
  return *from;
#endif
}

// The elements first, ..., first + kLanes - 1, which are aligned to the vector they fill; behind the end, the last one again.
template <int kLanes, int kCount, class S>
TSL_INLINE void load_lanes(const uchar* data, ulonglong first, ulonglong total, S (&values)[kLanes * kCount]) {
  const S* from = reinterpret_cast<const S*>(data) + first * kCount;
  if (kLanes == 1) {
    for (int c = 0; c < kCount; ++c) values[c] = from[c];
  } else if (first + kLanes <= total) {
    using Access = typename WordOf<access_bytes(sizeof values)>::type;
    Access vectors[sizeof values / sizeof(Access)];
    for (int w = 0; w < int(sizeof values / sizeof(Access)); ++w) vectors[w] = load_vector(reinterpret_cast<const Access*>(from) + w);
    TSL_COPY(values, vectors, sizeof values);
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
    using Access = typename WordOf<access_bytes(sizeof values)>::type;
    Access vectors[sizeof values / sizeof(Access)];
    TSL_COPY(vectors, values, sizeof values);
    for (int w = 0; w < int(sizeof values / sizeof(Access)); ++w) reinterpret_cast<Access*>(to)[w] = vectors[w];
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

// Which elements a thread has at once. `has(lane)`: whether this one is there.
template <int kLanes> struct MapSpan {  // of all, in their order
  ulonglong first, total;
  TSL_INLINE bool has(int lane) const { return kLanes == 1 || first + lane < total; }
  TSL_INLINE ulonglong number(int lane) const { return first + lane; }
};
struct MapRowSpan {  // of a row of a tile; a thread that has none there goes along with the first row's: waves sum together
  const MapTile& tile;
  const MapPlace& place;
  ulonglong own_row, row;
  uint column;
  bool here;
  TSL_INLINE bool has(int) const { return here; }
  TSL_INLINE ulonglong number(int lane) const { return row * tile.columns + column + lane; }
};

// A view's values of all lanes. An input's are loaded and given to each lane's element, an output's kept from there and stored.
template <class View, int kLanes> struct MapLanes {
  using Field = MapField<View>;
  static constexpr int kCount = View::kComponents;
  typename View::Memory values[kLanes * kCount];

  TSL_INLINE void give(Field& field, int lane) const {
    for (int c = 0; c < kCount; ++c) field.values[c] = values[lane * kCount + c];
  }
  TSL_INLINE void keep(const Field& field, int lane, bool) {
    for (int c = 0; c < kCount; ++c) values[lane * kCount + c] = field.values[c];
  }
};

template <class View, int kLanes, MapAccess = View::kAccess> struct MapPort : MapLanes<View, kLanes> {
  TSL_INLINE void load(const TslArgs& args, const MapRowSpan& span) {
    const TslView& view = args.views[View::kView];
    if constexpr (View::kAccess == MapAccess::Row) {
      load_row<kLanes, View::kComponents>(view, span.place, span.column, this->values);
    } else if constexpr (View::kAccess == MapAccess::Column) {
      load_column<kLanes, View::kComponents>(view, span.place, this->values);
    } else {
      load_strided<kLanes, View::kComponents>(view, span.place, span.column, row_stride(args, View::kView), this->values);
    }
  }
};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Dense> : MapLanes<View, kLanes> {
  TSL_INLINE void load(const TslArgs& args, const MapSpan<kLanes>& span) {
    load_lanes<kLanes, View::kComponents>(args.views[View::kView].data, span.first, span.total, this->values);
  }
  TSL_INLINE void store(const TslArgs& args, const MapSpan<kLanes>& span) const {
    store_lanes<kLanes, View::kComponents>(args.views[View::kView].data, span.first, span.total, this->values);
  }
  TSL_INLINE void store(const TslArgs& args, const MapRowSpan& span) const {
    if (!span.here) return;
    const ulonglong first = span.row * span.tile.columns + span.column;
    store_lanes<kLanes, View::kComponents>(args.views[View::kView].data, first, first + kLanes, this->values);
  }
};
// Loaded before the loop.
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Scalar> {
  template <class Span> TSL_INLINE void load(const TslArgs&, const Span&) {}
  TSL_INLINE void give(MapField<View>&, int) const {}
};
template <class View> struct MapMaker : MapMade<View> {
  template <class Span> TSL_INLINE void load(const TslArgs& args, const Span& span) { this->begin_at(args, span.number(0)); }
  TSL_INLINE void give(MapField<View>& field, int lane) const { this->make(field, lane); }
};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Place> : MapMaker<View> {};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Hash> : MapMaker<View> {};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Random> : MapMaker<View> {};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::RowSum> {
  typename View::Field sums[View::kComponents] = {};
  TSL_INLINE void keep(const MapField<View>& field, int, bool here) {
    for (int c = 0; here && c < View::kComponents; ++c) sums[c] += field.values[c];
  }
  TSL_INLINE void store(const TslArgs& args, const MapRowSpan& span) const {
    store_row_sum<View::kComponents>(args.views[View::kView].data, args, span.tile, span.own_row, sums);
  }
};
// Stored after the loop: MapTotal.
struct MapPortOfTotal {
  template <class Field> TSL_INLINE void keep(const Field&, int, bool) {}
  template <class Span> TSL_INLINE void store(const TslArgs&, const Span&) const {}
};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::Summed> : MapPortOfTotal {};
template <class View, int kLanes> struct MapPort<View, kLanes, MapAccess::ColumnSum> : MapPortOfTotal {};

// A thread's sums of all its elements, or of all in each of its columns.
template <class View, int kLanes, int kThreads, MapAccess = View::kAccess> struct MapTotal {
  TSL_INLINE void add(const MapField<View>&, int, bool) {}
  TSL_INLINE void store(const TslArgs&) const {}
  TSL_INLINE void store(const TslArgs&, const MapTile&) const {}
};
template <class View, int kLanes, int kThreads> struct MapTotal<View, kLanes, kThreads, MapAccess::Summed> {
  typename View::Field sums[View::kComponents] = {};
  TSL_INLINE void add(const MapField<View>& field, int, bool here) {
    for (int c = 0; here && c < View::kComponents; ++c) sums[c] += field.values[c];
  }
  TSL_INLINE void store(const TslArgs& args) const {
    store_block_sum<kThreads, View::kComponents>(args.views[View::kView].data, sums);
  }
  TSL_INLINE void store(const TslArgs& args, const MapTile&) const { store(args); }
};
template <class View, int kLanes, int kThreads> struct MapTotal<View, kLanes, kThreads, MapAccess::ColumnSum> {
  typename View::Field sums[kLanes * View::kComponents] = {};
  TSL_INLINE void add(const MapField<View>& field, int lane, bool here) {
    for (int c = 0; here && c < View::kComponents; ++c) sums[lane * View::kComponents + c] += field.values[c];
  }
  TSL_INLINE void store(const TslArgs& args, const MapTile& tile) const {
    store_column_sums<kThreads, kLanes, View::kComponents>(args.views[View::kView].data, tile, sums);
  }
};

template <class... Parts> struct MapParts : Parts... {};

template <class Kernel, void (Kernel::*kEntry)(), class Inputs, class Outputs, int kLanes, int kThreads> struct MapLoop;
template <class Kernel, void (Kernel::*kEntry)(), class... In, class... Out, int kLanes, int kThreads>
struct MapLoop<Kernel, kEntry, MapViews<In...>, MapViews<Out...>, kLanes, kThreads> {
  const TslArgs& args;
  MapElement<MapViews<In...>, MapViews<Out...>> scalars;
  MapParts<MapTotal<Out, kLanes, kThreads>...> totals;
#if TSL_MAP_SUMS
  typename SharedOf<Kernel>::type shared;
#else
  NoSums shared;
#endif

  TSL_INLINE MapLoop(const TslArgs& given) : args(given) { load_scalars(MapViews<In...>(), args, scalars); }

  template <class Span> TSL_INLINE void run(const Span& span) {
    MapParts<MapPort<In, kLanes>...> inputs;
    MapParts<MapPort<Out, kLanes>...> outputs;
    (inputs.MapPort<In, kLanes>::load(args, span), ...);
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
#if TSL_SEES_TENSORS
      Kernel kernel = kernel_of<Kernel>(args, span.number(lane));
#else
      Kernel kernel{{{{make_uint3(threadIdx.x, 0, 0), make_uint3(blockIdx.x, 0, 0), make_uint3(blockDim.x, 1, 1),
                       make_uint3(gridDim.x, 1, 1), args}}}};
#endif
      auto& element = kernel.tsl_element;
      element = scalars;
      (inputs.MapPort<In, kLanes>::give(element, lane), ...);
#if TSL_MAP_SUMS
      kernel.shared = &shared;
#endif
      if (!TSL_SEES_TENSORS || span.has(lane)) run_element<Kernel, kEntry>(kernel);
      (outputs.MapPort<Out, kLanes>::keep(element, lane, span.has(lane)), ...);
      (totals.MapTotal<Out, kLanes, kThreads>::add(element, lane, span.has(lane)), ...);
    }
    (outputs.MapPort<Out, kLanes>::store(args, span), ...);
  }

  TSL_INLINE void run_all() {
    const ulonglong total = map_total(args), step = ulonglong(gridDim.x) * blockDim.x * kLanes;
    for (ulonglong first = (ulonglong(blockIdx.x) * blockDim.x + threadIdx.x) * kLanes; first < total; first += step) {
      run(MapSpan<kLanes>{first, total});
    }
    shared.end(args, blockIdx.x);
    (totals.MapTotal<Out, kLanes, kThreads>::store(args), ...);
  }

  TSL_INLINE void run_tile() {
    const MapTile tile(args, kLanes);
#pragma unroll 1
    for (uint k = 0; k < tile.rows_each; ++k) {
      const ulonglong own_row = tile.first_row + ulonglong(k) * tile.rows_at_once;
      const bool here = own_row < tile.rows && tile.column < tile.columns;
      const ulonglong row = here ? own_row : 0;
      const MapPlace place(args, row, map_rank(args) - 1);
      run(MapRowSpan{tile, place, own_row, row, here ? tile.column : 0u, here});
    }
    shared.end(args, blockIdx.x);
    (totals.MapTotal<Out, kLanes, kThreads>::store(args, tile), ...);
  }
};

template <class Kernel, void (Kernel::*kEntry)(), class Inputs, class Outputs, bool kTiled, int kLanes, int kThreads>
TSL_INLINE void run_map(const TslArgs& args) {
  MapLoop<Kernel, kEntry, Inputs, Outputs, kLanes, kThreads> loop(args);
  if constexpr (kTiled) loop.run_tile();
  else loop.run_all();
}

}  // namespace tsl

#endif
