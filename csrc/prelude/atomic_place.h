// Where an atomic operation on a view's element goes.
//
// It must go somewhere, also where there is no tensor (Note [views]). What it gives there is what a load gives, which leaves
// the mark `reads <view>` if, and only if, the program uses it: then the run-time compiles the kernel again with a tensor.
#pragma once

#include "prelude/atomics.h"
#include "prelude/mark.h"

namespace tsl {
template <class T> struct AtomicPlace {
  T* address;
  int absent_view;  // -1: the tensor is there
  int view;
  ulonglong offset;  // in the view, in bytes
  bool is_spare;  // the view has no such element
  TSL_INLINE operator T*() const { return address; }
  TSL_INLINE T given(T old) const { return absent_view < 0 ? old : marked_absent_value<T>(absent_view); }
};
}  // namespace tsl

#define TSL_AT_PLACE(name)                                                        \
  template <class T, class... V>                                                  \
  TSL_INLINE T name(tsl::AtomicPlace<T> place, V... values) {                     \
    return place.given(name(place.address, static_cast<T>(values)...));           \
  }
TSL_AT_PLACE(atomicAdd)
TSL_AT_PLACE(atomicSub)
TSL_AT_PLACE(atomicMin)
TSL_AT_PLACE(atomicMax)
TSL_AT_PLACE(atomicAnd)
TSL_AT_PLACE(atomicOr)
TSL_AT_PLACE(atomicXor)
TSL_AT_PLACE(atomicInc)
TSL_AT_PLACE(atomicDec)
TSL_AT_PLACE(atomicExch)
TSL_AT_PLACE(atomicCAS)
#undef TSL_AT_PLACE

#define TSL_REDUCE_AT_PLACE(name)                                                 \
  template <class T, class... V>                                                  \
  TSL_INLINE void __slang_atomic_reduce_##name(tsl::AtomicPlace<T> place, V... values) { \
    __slang_atomic_reduce_##name(place.address, values...);                       \
  }
TSL_REDUCE_AT_PLACE(add)
TSL_REDUCE_AT_PLACE(min)
TSL_REDUCE_AT_PLACE(max)
TSL_REDUCE_AT_PLACE(and)
TSL_REDUCE_AT_PLACE(or)
TSL_REDUCE_AT_PLACE(xor)
TSL_REDUCE_AT_PLACE(inc)
TSL_REDUCE_AT_PLACE(dec)
#undef TSL_REDUCE_AT_PLACE
