// The loop around an elementwise function: Note [map loops] in source/kernel_source.h. The generated part is the types of its views
// and one call of run_map (map_device.h, map_host.h).
#pragma once

#include "prelude/kernel_base.h"

namespace tsl {

// As source/kernel_source.h's MapView::Access describes them.
enum class MapAccess { Dense, Scalar, Row, Column, Strided, Place, Hash, Random, Summed, RowSum, ColumnSum };

// An argument or result: the number of its view, the type of its components in memory, how many an element has, and its
// first slot, if it may be a scalar that has no view, or is generated.
template <int kNumber, class S, int kCount, MapAccess kHow, int kFirstSlot = -1, bool kIsOfValues = false>
struct MapView {
  static constexpr int kView = kNumber, kComponents = kCount, kSlot = kFirstSlot;
  static constexpr bool kIsValue = kIsOfValues;  // a result that stands beside tangents
  static constexpr MapAccess kAccess = kHow;
  static constexpr bool kIsSum =
      kHow == MapAccess::Summed || kHow == MapAccess::RowSum || kHow == MapAccess::ColumnSum;
  using Memory = S;
  using Field = typename Choose<kIsSum, SumOf<S>, S>::type;
};

template <class... Views> struct MapViews {};

// Between a component's type in the function and that in memory.
template <class To, class From>
TSL_INLINE To convert(From value) {
  if constexpr (IsSame<To, From>::value) return value;
  else if constexpr (!IsSame<SumOf<To>, To>::value || !IsSame<SumOf<From>, From>::value) return To(float(value));
  else return To(value);
}

#if TSL_CUDA
// The same number, but to compilers another: Note [values beside tangents].
template <class T> TSL_INLINE T apart(T value) {
  if constexpr (IsSame<T, float>::value) asm("" : "+f"(value));
  if constexpr (IsSame<T, double>::value) asm("" : "+d"(value));
  return value;
}
#endif

// The values of one element, a field for each view.
template <class View> struct MapField {
  typename View::Field values[View::kComponents];
};
template <class Inputs, class Outputs> struct MapElement;
template <class... In, class... Out>
struct MapElement<MapViews<In...>, MapViews<Out...>> : MapField<In>..., MapField<Out>... {
  static constexpr bool kHasValues = (false || ... || Out::kIsValue);
  bool is_of_values = false;  // on a host: Note [values beside tangents]
  // The numbers are constants where these are inlined, so that one branch is left.
  template <class T> TSL_INLINE T input(int view, int component) const {
    T value = T();
    (void)(... || (view == In::kView && (value = convert<T>(MapField<In>::values[component]), true)));
    return value;
  }
  template <class T> TSL_INLINE void output(int view, int component, T value) {
    (void)(... || (view == Out::kView &&
                   (MapField<Out>::values[component] = convert<typename Out::Field>(value), true)));
  }
  TSL_INLINE static constexpr bool takes(int view) { return (... || (view == Out::kView)); }
};

// Note [values beside tangents]
//   One loop gives a function's results and their tangents (Note [dual calls] in dispatch/dual_call.h). The results should be those of
//   a plain call, to the bit. But a compiler fuses a product with a sum or not by all uses of the product, the tangents' among
//   them, and by which statements vectorise. So on a host each block of a few thousand elements has two loops, in functions
//   of their own: the second loop reads from the cache. On a GPU the function gets inputs that the compiler takes for other
//   numbers than the tangents' (tsl_input_apart). There last bits may differ all the same: ptxas fuses too.

// What emitted text of an elementwise function is a member of.
template <class Own, class Inputs, class Outputs>
struct MapKernel : KernelBase<Own> {
  using Element = MapElement<Inputs, Outputs>;
  Element tsl_element;
  template <class T> TSL_INLINE T tsl_input(int view, int component) const {
    return tsl_element.template input<T>(view, component);
  }
  template <class T> TSL_INLINE T tsl_input_apart(int view, int component) const {
#if TSL_CUDA
    return apart(tsl_input<T>(view, component));
#else
    return tsl_input<T>(view, component);
#endif
  }
  template <class T> TSL_INLINE void tsl_output(int view, int component, T value) {
    tsl_element.output(view, component, value);
  }
  TSL_INLINE static bool tsl_takes(int view) { return Element::takes(view); }
  TSL_INLINE bool tsl_gives_values() const { return Element::kHasValues && (TSL_CUDA || tsl_element.is_of_values); }
  TSL_INLINE bool tsl_gives_tangents() const { return TSL_CUDA || !tsl_element.is_of_values; }
};

TSL_INLINE ulonglong map_total(const TslArgs& args) {
  return args.dims[kTslMapTotal] | ulonglong(args.dims[kTslMapTotal + 1]) << 32;
}

#if TSL_SEES_TENSORS
// The kernel object of an element. A function that sees tensors tells its threads apart: by the elements' numbers, in blocks of
// TSL_SEES_TENSORS.
template <class Kernel> TSL_INLINE Kernel kernel_of(const TslArgs& args, ulonglong number) {
  constexpr uint kBlock = TSL_SEES_TENSORS;
  const uint blocks = uint((map_total(args) + kBlock - 1) / kBlock);
  return Kernel{{{{uint3{uint(number % kBlock), 0, 0}, uint3{uint(number / kBlock), 0, 0}, uint3{kBlock, 1, 1},
                   uint3{blocks, 1, 1}, args}}}};
}
#endif

// One element from beginning to end.
template <class Kernel, void (Kernel::*kEntry)()> TSL_FLAT void run_element(Kernel& kernel) {
#if TSL_OWN_PLACES
  tsl_set_places(kernel);  // generated
#endif
  kernel.own.begin(kernel);
  (kernel.*kEntry)();
  kernel.own.end(kernel);
}

// Of a loop that keeps no sums (Note [few elements] in map_sums.h); of one that does, generated.
struct NoSums {
  TSL_INLINE void end(const TslArgs&, ulonglong) const {}
};
#if TSL_MAP_SUMS
template <class Kernel> struct SharedOf { using type = TslShared; };  // complete where a loop is made
#endif

// A view of one element: the first in memory, or of the slots where there is no memory.
template <class View> TSL_INLINE void load_scalar(const TslArgs& args, MapField<View>& field) {
  if constexpr (View::kAccess == MapAccess::Scalar) {
    using S = typename View::Memory;
    const S* data = reinterpret_cast<const S*>(args.views[View::kView].data);
    for (int c = 0; c < View::kComponents; ++c) {
      field.values[c] = data ? data[c] : *reinterpret_cast<const S*>(&args.slots[View::kSlot + c]);
    }
  }
}
template <class... Views, class Element> TSL_INLINE void load_scalars(MapViews<Views...>, const TslArgs& args, Element& to) {
  (load_scalar<Views>(args, to), ...);
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

}  // namespace tsl
