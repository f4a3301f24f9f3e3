// What the kernel object inherits. Emitted functions are members of `struct Kernel : tsl::KernelBase`, so the index
// built-ins that the text names (threadIdx, ...) are fields, and one real thread can run several virtual ones, each with a
// fresh object.
#pragma once

#include "prelude/gradients.h"

TSL_INLINE TensorView tsl_make_view(const TslArgs& args, int k);  // generated for each kernel

namespace tsl {

struct KernelBase {
  uint3 threadIdx, blockIdx, blockDim, gridDim;
  const TslArgs& args;

  TSL_INLINE TensorView tsl_view(int k) const { return tsl_make_view(args, k); }

  // A value parameter's component, which its slot holds in its own type.
  template <class T> TSL_INLINE T tsl_slot(int slot) const {
    return *reinterpret_cast<const T*>(&args.slots[slot]);
  }

  // The same of a differentiable value: in memory of the device if the pointer is not null, else in the slots.
  template <class T> TSL_INLINE T tsl_value(int slot, int pointer_slot, int component) const {
    const T* values = reinterpret_cast<const T*>(args.slots[pointer_slot]);
    return values ? values[component] : tsl_slot<T>(slot + component);
  }

  // Adds to the value's gradient.
  template <class T> TSL_INLINE void tsl_gradient(int gradient_slot, int component, T amount) const {
    T* gradient = reinterpret_cast<T*>(args.slots[gradient_slot]);
    if (gradient) atomicAdd(gradient + component, amount);
  }
};

}  // namespace tsl
