// What the kernel object inherits. Emitted functions are members of `struct Kernel : tsl::KernelBase`, so the index
// built-ins that the text names (threadIdx, ...) are fields, and one real thread can run several virtual ones, each with a
// fresh object.
#pragma once

#include "prelude/gradients.h"
#include "prelude/wave_operators.h"
#if TSL_CUDA
#include "prelude/wave_primitives_cuda.h"
#endif

TSL_INLINE TensorView tsl_make_view(const TslArgs& args, int k);  // generated for each kernel

namespace tsl {

// Halves are added up in float.
template <class T> struct SumIn { using type = T; };
template <> struct SumIn<__half> { using type = float; };
template <> struct SumIn<__nv_bfloat16> { using type = float; };
template <class T> using SumOf = typename SumIn<T>::type;

struct KernelBase {
  uint3 threadIdx, blockIdx, blockDim, gridDim;
  const TslArgs& args;

#if !TSL_CUDA
  // Members, since the C library has a clock() too.
  static TSL_INLINE longlong clock64() {
#if defined(__x86_64__)
    return longlong(__builtin_ia32_rdtsc());
#else
    longlong ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
  }
  static TSL_INLINE int clock() { return int(clock64()); }
#endif

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

  // Adds to the value's gradient. All threads add to one address, so on the GPU those of a wave add up first.
  template <class T> TSL_INLINE void tsl_gradient(int gradient_slot, int component, T amount) const {
    T* gradient = reinterpret_cast<T*>(args.slots[gradient_slot]);
    if (!gradient) return;
#if TSL_CUDA
    const WarpMask active = __activemask();
    amount = T(reduce<WaveAdd>(active, SumOf<T>(amount)));
    if (_getLaneId() != uint(__ffs(active) - 1)) return;
#endif
    atomicAdd(gradient + component, amount);
  }
};

}  // namespace tsl
