// Gradient primitives that the Slang view library names (slang/device.slang). A gradient view has its primal's element
// type and index space; where it is null or absent (nobody wants the gradient) everything here does nothing or gives zero.
//
// Sums happen in the element's own type: float16 and bfloat16 round at each addition, as an atomic addition must.
#pragma once

#include "prelude/atomics.h"
#include "prelude/components.h"
#include "prelude/views.h"

namespace tsl {

struct AddTo {
  template <class T> TSL_INLINE void operator()(T* place, T& amount) const { atomicAdd(place, amount); }
};
struct TakeFrom {
  template <class T> TSL_INLINE void operator()(T* place, T& taken) const { taken = atomicExch(place, T(0)); }
};

template <class Index> TSL_INLINE bool wanted(const TensorView& gradient, Index index) {
  return !gradient.absent && gradient.data != nullptr && gradient.inside(index);
}

}  // namespace tsl

template <class T, class Index>
TSL_INLINE void tsl_accumulate(TensorView gradient, Index index, T amount) {
  if (tsl::wanted(gradient, index)) tsl::for_each_scalar(gradient.data_ptr_at<T>(index), amount, tsl::AddTo{});
}

template <class T, class Index>
TSL_INLINE T tsl_take(TensorView gradient, Index index) {
  T taken{};
  if (tsl::wanted(gradient, index)) tsl::for_each_scalar(gradient.data_ptr_at<T>(index), taken, tsl::TakeFrom{});
  return taken;
}

template <class T, class Index>
TSL_INLINE void tsl_set(TensorView gradient, Index index, T amount) {
  if (tsl::wanted(gradient, index)) gradient.store<T>(index, amount);
}

template <class T, class Index>
TSL_INLINE T tsl_get(TensorView gradient, Index index) {
  return tsl::wanted(gradient, index) ? gradient.load<T>(index) : T{};
}
