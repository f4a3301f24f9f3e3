// The loop over elements on the host: Note [map loops] in source/kernel_source.h.
//
// Note [slices]
//   The loop must look like any other to vectorise: sums of floats, which may not be reordered, would stand in its way. So it
//   stores the terms of the sum, for a slice of elements, and a plain loop adds the slice up, in double.
#pragma once

#include "prelude/host_loop.h"
#include "prelude/map.h"
#include "prelude/map_generated.h"

#if !TSL_CUDA

namespace tsl {

constexpr int kSlice = 256;

// f(0), ..., f(kCount - 1), written out: a loop would be unrolled too late for the loop around it to vectorise.
template <int kCount, class F> TSL_INLINE void for_each_component(F f) {
  if constexpr (kCount > 0) {
    for_each_component<kCount - 1>(f);
    f(kCount - 1);
  }
}

// Elements of one row, or of all if nothing is strided: `first` and those behind it.
struct MapRun {
  ulonglong first;
  const MapPlace& place;  // of the row
  uint column;
};

// Where a view's elements of a run are: `begin` looks, and j counts from the run's first.
template <class View, MapAccess = View::kAccess> struct MapCursor;

template <class View> struct MapPointer {
  static constexpr int kCount = View::kComponents;
  typename View::Memory* at;
  TSL_INLINE void load(MapField<View>& field, longlong j) const {
    for_each_component<kCount>([&](int c) TSL_INLINE_LAMBDA { field.values[c] = at[j * kCount + c]; });
  }
  TSL_INLINE void store(const MapField<View>& field, longlong j) {
    for_each_component<kCount>([&](int c) TSL_INLINE_LAMBDA { at[j * kCount + c] = field.values[c]; });
  }
};

template <class View> struct MapCursor<View, MapAccess::Dense> : MapPointer<View> {
  template <class Element> TSL_INLINE void begin(const TslArgs& args, const MapRun& run, Element&) {
    this->at = reinterpret_cast<typename View::Memory*>(args.views[View::kView].data) + run.first * View::kComponents;
  }
};
template <class View> struct MapCursor<View, MapAccess::Row> : MapPointer<View> {
  template <class Element> TSL_INLINE void begin(const TslArgs& args, const MapRun& run, Element&) {
    const TslView& view = args.views[View::kView];
    this->at = reinterpret_cast<typename View::Memory*>(view.data + run.place.offset(view)) +
               ulonglong(run.column) * View::kComponents;
  }
};
template <class View> struct MapCursor<View, MapAccess::Strided> {
  const uchar* at;
  longlong stride;
  template <class Element> TSL_INLINE void begin(const TslArgs& args, const MapRun& run, Element&) {
    const TslView& view = args.views[View::kView];
    stride = row_stride(args, View::kView);
    at = view.data + run.place.offset(view) + run.column * stride;
  }
  TSL_INLINE void load(MapField<View>& field, longlong j) const {
    const auto* values = reinterpret_cast<const typename View::Memory*>(at + j * stride);
    for_each_component<View::kComponents>([&](int c) TSL_INLINE_LAMBDA { field.values[c] = values[c]; });
  }
};
template <class View> struct MapCursor<View, MapAccess::Scalar> {  // loaded before all runs
  template <class Element> TSL_INLINE void begin(const TslArgs&, const MapRun&, Element&) {}
  TSL_INLINE void load(MapField<View>&, longlong) const {}
};
template <class View> struct MapCursor<View, MapAccess::Column> {  // one element for the whole run
  template <class Element> TSL_INLINE void begin(const TslArgs& args, const MapRun& run, Element& scalars) {
    const TslView& view = args.views[View::kView];
    const auto* values = reinterpret_cast<const typename View::Memory*>(view.data + run.place.offset(view));
    MapField<View>& field = scalars;
    for_each_component<View::kComponents>([&](int c) TSL_INLINE_LAMBDA { field.values[c] = values[c]; });
  }
  TSL_INLINE void load(MapField<View>&, longlong) const {}
};
template <class View> struct MapMaker : MapMade<View> {
  template <class Element> TSL_INLINE void begin(const TslArgs& args, const MapRun& run, Element&) {
    this->begin_at(args, run.first);
  }
  TSL_INLINE void load(MapField<View>& field, longlong j) const { this->make(field, j); }
};
template <class View> struct MapCursor<View, MapAccess::Place> : MapMaker<View> {};
template <class View> struct MapCursor<View, MapAccess::Hash> : MapMaker<View> {};
template <class View> struct MapCursor<View, MapAccess::Random> : MapMaker<View> {};
template <class View> struct MapCursor<View, MapAccess::Summed> {  // Note [slices]
  typename View::Field slices[View::kComponents][kSlice];
  template <class Element> TSL_INLINE void begin(const TslArgs&, const MapRun&, Element&) {}
  TSL_INLINE void store(const MapField<View>& field, longlong j) {
    for_each_component<View::kComponents>([&](int c) TSL_INLINE_LAMBDA { slices[c][j] = field.values[c]; });
  }
};

// The sums of a block's elements.
template <class View, bool kIsSum = View::kIsSum> struct MapTotal {
  TSL_INLINE void add(const MapCursor<View>&, longlong) {}
  TSL_INLINE void store(const TslArgs&, ulonglong) const {}
};
template <class View> struct MapTotal<View, true> {
  double sums[View::kComponents] = {};
  TSL_INLINE void add(const MapCursor<View>& cursor, longlong count) {
    for (int c = 0; c < View::kComponents; ++c) sums[c] = added(sums[c], cursor.slices[c], count);
  }
  TSL_INLINE void store(const TslArgs& args, ulonglong block) const {
    auto* to = reinterpret_cast<typename View::Field*>(args.views[View::kView].data) + block * View::kComponents;
    for (int c = 0; c < View::kComponents; ++c) to[c] = typename View::Field(sums[c]);
  }

 private:
  static TSL_INLINE double added(double sum, const typename View::Field* slice, longlong count) {
#pragma omp simd reduction(+ : sum)
    for (longlong j = 0; j < count; ++j) sum += slice[j];
    return sum;
  }
};

template <class... Parts> struct MapParts : Parts... {};

template <class Kernel, void (Kernel::*kEntry)(), class Inputs, class Outputs, bool kTiled> struct MapLoop;
template <class Kernel, void (Kernel::*kEntry)(), class... In, class... Out, bool kTiled>
struct MapLoop<Kernel, kEntry, MapViews<In...>, MapViews<Out...>, kTiled> {
  using Element = MapElement<MapViews<In...>, MapViews<Out...>>;
  static constexpr bool kHasSums = (false || ... || Out::kIsSum);

  template <bool kIsOfThisLoop, class Cursor>
  static TSL_INLINE void store(Cursor& cursor, const Element& element, longlong j) {
    if constexpr (kIsOfThisLoop) cursor.store(element, j);
  }

  // The loop itself; kOfValues: Note [values beside tangents] in prelude/map.h.
  template <bool kOfValues, class Shared>
  static TSL_INLINE void run_each(const TslArgs& args, const ThreadRow& row, const MapRun& run, longlong count,
                                  Element& scalars, MapParts<MapTotal<Out>...>& totals, Shared& shared) {
    MapParts<MapCursor<In>...> inputs;
    MapParts<MapCursor<Out>...> outputs;
    (inputs.MapCursor<In>::begin(args, run, scalars), ...);
    (outputs.MapCursor<Out>::begin(args, run, scalars), ...);
#if !TSL_MAP_SUMS  // those are one memory for all elements
    TSL_INDEPENDENT_THREADS
#endif
    for (longlong j = 0; j < count; ++j) {
#if TSL_SEES_TENSORS
      Kernel kernel = kernel_of<Kernel>(args, run.first + ulonglong(j));
#else
      Kernel kernel{{{{uint3{0, 0, 0}, uint3{0, 0, 0}, uint3{1, 1, 1}, uint3{1, 1, 1}, args}}}};
#endif
      kernel.stand_in(row);
      auto& element = kernel.tsl_element;
      element = scalars;
      element.is_of_values = kOfValues;
      (inputs.MapCursor<In>::load(element, j), ...);
#if TSL_MAP_SUMS
      kernel.shared = &shared;
#endif
      run_element<Kernel, kEntry>(kernel);
      (store<!Element::kHasValues || Out::kIsValue == kOfValues>(static_cast<MapCursor<Out>&>(outputs), element, j), ...);
    }
    (totals.MapTotal<Out>::add(outputs, count), ...);
  }

  // The elements i, ..., end - 1 or the first of them; returns how many.
  template <bool kOfValues, class Shared>
  static TSL_INLINE longlong run(const TslArgs& args, const ThreadRow& row, ulonglong i, ulonglong end,
                                 Element& scalars, MapParts<MapTotal<Out>...>& totals, Shared& shared) {
    longlong count = longlong(end - i);
    const uint length = kTiled ? row_length(args) : 1, column = kTiled ? uint(i % length) : 0;
    const MapPlace place(args, kTiled ? i / length : 0, kTiled ? map_rank(args) - 1 : 1);
    if (const longlong left = longlong(length) - column; kTiled && left < count) count = left;
    if (kHasSums && count > kSlice) count = kSlice;
    const MapRun run{i, place, column};
    run_each<kOfValues>(args, row, run, count, scalars, totals, shared);
    return count;
  }

  template <int kElements, bool kOfValues>
  static TSL_INLINE void run_blocks(const TslArgs& args, const ThreadRow& row, ulonglong block, ulonglong last) {
    const ulonglong total = map_total(args);
    Element scalars;
    load_scalars(MapViews<In...>(), args, scalars);
    for (; block < last && !TSL_STOPPED(args); ++block) {
      ulonglong i = block * kElements;
      const ulonglong end = total - i < kElements ? total : i + kElements;
      MapParts<MapTotal<Out>...> totals;
#if TSL_MAP_SUMS
      typename SharedOf<Kernel>::type shared;
#else
      NoSums shared;
#endif
      while (i < end) i += run<kOfValues>(args, row, i, end, scalars, totals, shared);
      shared.end(args, block);
      (totals.MapTotal<Out>::store(args, block), ...);
    }
  }

  // Not inlined, and with a copy of the arguments: so the compiler makes the same code of it as of the loop of a plain call.
  template <int kElements>
  static TSL_ROOT __attribute__((noinline)) void run_values(const TslArgs& given, const ThreadRow& row,
                                                               ulonglong block, ulonglong last) {
    const TslArgs args = given;
    run_blocks<kElements, true>(args, row, block, last);
  }
};

// Blocks of kElements elements: first, ..., last - 1.
template <class Kernel, void (Kernel::*kEntry)(), class Inputs, class Outputs, bool kTiled, int kElements>
TSL_INLINE void run_map(const TslArgs& args, const ThreadRow& row, ulonglong first, ulonglong last) {
  using Loop = MapLoop<Kernel, kEntry, Inputs, Outputs, kTiled>;
  if constexpr (Loop::Element::kHasValues) {
    for (; first < last; ++first) {
      Loop::template run_values<kElements>(args, row, first, first + 1);
      Loop::template run_blocks<kElements, false>(args, row, first, first + 1);
    }
  } else {
    Loop::template run_blocks<kElements, false>(args, row, first, last);
  }
}

}  // namespace tsl

#endif
