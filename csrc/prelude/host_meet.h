// Where threads of a block meet on the host: the kernel's side of host_threads.h. Each thread is a fiber of the CPU back
// end, and all those of a block run on one OS thread in turn; `tsl_host_thread` is the one that runs now.
#pragma once

#include "prelude/host_threads.h"
#include "prelude/vectors.h"

#if !TSL_CUDA

// Note [lone lanes]
//   An elementwise function that sees tensors may use wave operations, which then speak of those elements of the call that a
//   wave of a GPU happens to have. On the host each element is a wave of its own.
#if TSL_SEES_TENSORS
namespace tsl {
TSL_INLINE uint own_lane() { return 0; }
}  // namespace tsl
static TslHostThread* tsl_host_thread;  // of kernels' launchers
#elif TSL_BARRIERS || TSL_WAVES
static thread_local TslHostThread* tsl_host_thread;
namespace tsl {
TSL_INLINE TslHostThread* host_thread() { return tsl_host_thread; }
}  // namespace tsl
#else
namespace tsl {
// A kernel that names nothing of this kind runs as a plain loop, where there is nobody to meet.
__attribute__((error("the threads of this kernel meet, but it was compiled as one whose threads are independent")))
TslHostThread* host_thread();
}  // namespace tsl
static TslHostThread* tsl_host_thread;
#endif

namespace tsl {

#if !TSL_SEES_TENSORS
TSL_INLINE uint own_lane() { return host_thread()->lane; }
#endif

enum HostOperation : unsigned { kVote, kShuffle, kActive, kSynchronize };

#if TSL_SEES_TENSORS
template <class T>
TSL_INLINE unsigned exchange(unsigned, unsigned, const T& value, T (&values)[kTslWaveSize]) {
  values[0] = value;
  return 1u;
}
#else
TSL_INLINE void host_barrier() {
  TslHostThread* self = host_thread();
  self->barrier(self);
  tsl_host_thread = self;  // others ran in between
}

// Fills values[lane] for each lane of the meeting; gives its mask.
template <class T>
TSL_INLINE unsigned exchange(unsigned mask, unsigned operation, const T& value, T (&values)[kTslWaveSize]) {
  static_assert(sizeof(T) <= kTslMaxExchange, "a wave operation on this type carries too many bytes");
  TslHostThread* self = host_thread();
  const unsigned meeting = self->exchange(self, mask, operation, &value, sizeof(T), values);
  tsl_host_thread = self;
  return meeting;
}
#endif

}  // namespace tsl

#if !TSL_SEES_TENSORS
TSL_INLINE void __syncthreads() { tsl::host_barrier(); }
#endif

#endif
