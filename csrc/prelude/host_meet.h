// Where threads of a block meet on the host: the kernel's side of host_threads.h. Each thread is a fiber of the CPU back
// end, and all those of a block run on one OS thread in turn; `tsl_host_thread` is the one that runs now.
#pragma once

#include "prelude/host_threads.h"
#include "prelude/vectors.h"

#if !TSL_CUDA

#if TSL_BARRIERS || TSL_WAVES
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

enum HostOperation : unsigned { kVote, kShuffle, kActive, kSynchronize };

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

}  // namespace tsl

TSL_INLINE void __syncthreads() { tsl::host_barrier(); }

#endif
