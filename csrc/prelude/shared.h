// Gradients of elements that threads along an axis of the launch share.
//
// Note [shared elements]
//   Threads along an axis that a view lacks (a bias [N] of rows, threads "N, M") add to the same elements of its gradient. A GPU
//   thread runs several of them, so their sums are kept in registers and added to memory once, atomically; to have more of
//   them, a hardware block runs several tiles along that axis, one after the other. Where threads along x share, those of a
//   wave add up first, and one of them adds.
//   Nothing need be proved: an access whose indices are not the thread's own coordinates goes to memory at once, and so do
//   all accesses of tiles at the launch's end. Sums are in the type that sums are kept in, so halves are rounded once.
#pragma once

#include "prelude/own.h"
#include "prelude/value_sums.h"

#if TSL_SHARED_SUMS

namespace tsl {

// kIsReplicated: memory holds replicas, of which each adder takes one.
template <int kView, class S, int kComponents, class Dims, bool kIsReplicated>
class SharedGradient {
  static constexpr uint kNumbers = Dims::kSize * kComponents;
  static constexpr uint kSlots = Dims::kHasX ? TSL_LANES : 1;  // lanes share where x is no dimension
  using Memory = typename Choose<kIsReplicated, SumOf<S>, S>::type;

 public:
  // Whether the element is one that the thread shares.
  template <class Thread, class T, class Index> TSL_INLINE bool add(const Thread& thread, T amount, Index index) {
    return add_in<0>(thread, amount, index);
  }

  // Adds what there is to memory. All threads of a block are here; `first`: the first lane of one of the thread's groups.
  template <class Thread> TSL_INLINE void end(const Thread& first) {
    const View view = first.view(kView);
    if (view.is_missing()) return;
    mark_add(kView);
    const ulonglong replicas = kIsReplicated ? gradient_slot(first.args, view, kTslReplicas, 1) : 1;
    const ulonglong adder = Dims::kHasX ? first.thread_number() : first.thread_number() / warpSize;
    unsigned char* data = replica(first.args, view, view.data, uint(adder % replicas));
#if TSL_LANES > 1
    if constexpr (Dims::kHasX && kNumbers == 1 && !kIsReplicated) {
      SumOf<S> sums[TSL_LANES];
      take_from<0>(sums);
      return add_to_memory<TSL_LANES>(reinterpret_cast<S*>(data + Dims::template offset<0>(view, first, 0)), sums);
    }
#endif
    add_from<0>(first, view, data);
  }

 private:
  template <uint kSlot, class Thread, class T, class Index>
  TSL_INLINE bool add_in(const Thread& thread, T& amount, Index index) {
    if constexpr (kSlot + 1 < kSlots) {
      if (thread.lane != kSlot) return add_in<kSlot + 1>(thread, amount, index);
    }
    return sums_[kSlot].each(thread, amount, OwnAdd{}, index);
  }
  template <uint kFrom, class Thread>
  TSL_INLINE void add_from(const Thread& first, const View& view, unsigned char* data) {
    if constexpr (kFrom < kSlots * kNumbers) {
      constexpr uint kLane = kFrom / kNumbers, kNumber = kFrom % kNumbers;
      SumOf<S> sum = sums_[kLane].number(kNumber);
      bool adds = true;
      if (!Dims::kHasX) {
        const Wave wave(thread_of_block(), blockDim.x * blockDim.y * blockDim.z);
        sum = wave.sum(sum);
        adds = wave.lane == 0;
      }
      Thread thread = first;
      thread.threadIdx.x += kLane;
      unsigned char* element = data + Dims::template offset<0>(view, thread, kNumber / kComponents);
      if (adds && sum != SumOf<S>(0)) atomicAdd(reinterpret_cast<Memory*>(element) + kNumber % kComponents, Memory(sum));
      add_from<kFrom + 1>(first, view, data);
    }
  }

  template <uint kFrom> TSL_INLINE void take_from(SumOf<S>* sums) const {
    if constexpr (kFrom < kSlots) {
      sums[kFrom] = sums_[kFrom].number(0);
      take_from<kFrom + 1>(sums);
    }
  }

  OwnGradient<kView, S, kComponents, Dims, /*kGiven=*/false> sums_[kSlots];
};

}  // namespace tsl

#endif
