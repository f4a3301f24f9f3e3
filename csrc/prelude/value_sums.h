// Gradients of values (scalars, vectors, matrices, arrays): sums over all threads of a launch. Here a wave's or a block's part
// of the sum goes to its place; the run-time adds the places up. Memory: Note [value gradients] in abi.h.
//
// Note [tile sums]
//   On a GPU a thread first adds up what its virtual threads give, and then its wave does.
//
// Note [row sums]
//   On the host a loop runs the threads of a row of a block, and it should vectorise. So nothing is added inside it: what
//   each thread gives is stored beside what its neighbours give, and the whole is summed once the loop is through. That
//   this is wanted is not asked inside either, since compilers make a loop of its own of each answer.
//   In double whatever the values' type, so that nobody need know it after the loop.
#pragma once

#include "prelude/gradients.h"
#include "prelude/held_sums.h"

#ifndef TSL_VALUE_SUMS
#define TSL_VALUE_SUMS 0
#endif

namespace tsl {

// Adds one adder's part to the place that it has for this component.
template <class S>
TSL_INLINE void add_part(ulonglong slot, int component, ulonglong adder, ulonglong adders, S part) {
  const uint sharing = slot & kTslMostSharing;
  const ulonglong places = ((adders - 1) >> sharing) + 1;
  S* place = reinterpret_cast<S*>(slot - sharing) + component * places + (adder >> sharing);
#if TSL_CUDA
  if (sharing == 0) {
    *place = part;
    return;
  }
#endif
  atomicAdd(place, part);
}

#if TSL_CUDA

// The wave of a thread, of those lanes that its block has: the block's last wave may be shorter. All of them must be here.
struct Wave {
  uint lane, lanes;

  TSL_INLINE Wave(uint thread, uint threads) : lane(thread % 32), lanes(min(threads - (thread - lane), 32u)) {}

  // Lane 0 gets the sum.
  template <class S> TSL_INLINE S sum(S amount) const {
    const WarpMask mask = ~0u >> (32 - lanes);
    for (uint step = 16; step > 0; step /= 2) {
      const S other = shuffle(mask, amount, int(lane + step));
      if (lane + step < lanes) amount += other;
    }
    return amount;
  }
};

// What the virtual threads of one thread give: Note [tile sums]. All threads of a wave are here together, for each component.
class ValueSums {
 public:
  bool is_last = true;  // the virtual thread that runs is the thread's last one
  HeldSums held;

  template <class Thread, class T>
  TSL_INLINE void give(const Thread& thread, int slot, int component, uint number, T amount) {
    using S = SumOf<T>;
    const ulonglong place = thread.args.slots[slot];
    if (place == 0) return;
    S sum = S(amount);
#if TSL_VALUE_SUMS
    ulonglong& kept = kept_[slot - component];
    if (number > 0) sum = get<S>(kept) + sum;
    if (!is_last) return put(kept, sum);
#endif
    const uint threads = blockDim.x * blockDim.y * blockDim.z;
    const uint thread_number = thread_of_block();
    const Wave wave(thread_number, threads);
    sum = wave.sum(sum);
    if (wave.lane != 0) return;
#if TSL_SAMPLE_DIMS
    const ulonglong block = blockIdx.x, blocks = gridDim.x;  // of the sample: Note [samples] in backend/samples.h
#else
    const ulonglong block = (ulonglong(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const ulonglong blocks = ulonglong(gridDim.x) * gridDim.y * gridDim.z;
#endif
    const ulonglong waves = (threads + 31) / 32;
    add_part(place, component, block * waves + thread_number / 32, blocks * waves, sum);
  }

 private:
  template <class S> static TSL_INLINE S get(ulonglong kept) {
    S sum;
    TSL_COPY(&sum, &kept, sizeof sum);
    return sum;
  }
  template <class S> static TSL_INLINE void put(ulonglong& kept, S sum) { TSL_COPY(&kept, &sum, sizeof sum); }

#if TSL_VALUE_SUMS
  // A value has a slot for each component in front of its gradient's, so `slot - component` is no other's.
  ulonglong kept_[TSL_SLOT_COUNT];
#endif
};

#elif TSL_VALUE_SUMS && !TSL_BARRIERS && !TSL_WAVES

// What the threads of one row give: Note [row sums].
class ValueSums {
  // A value has a slot for each component in front of its gradient's, so `slot - component` is no other's.
  static constexpr uint kComponents = TSL_SLOT_COUNT;
  static constexpr uint kVector = 8;
  static constexpr uint kFit = 8192 / kComponents / kVector * kVector;  // on a stack

 public:
  HeldSums held;
  // Threads a row at most.
  static constexpr uint kThreads = kFit > 128 ? 128 : kFit > 0 ? kFit : 1;

  template <class Thread, class T> TSL_INLINE void give(const Thread&, int slot, int component, uint number, T amount) {
    slots_[slot - component] = slot;
    amounts_[slot - component][number] = double(amount);
  }

  TSL_INLINE void add_up(const TslArgs& args, ulonglong block, ulonglong blocks, uint threads) {
    held.end(args);
    for (int i = 0; i < int(kComponents); ++i) {
      const int slot = slots_[i];
      if (slot == 0 || args.slots[slot] == 0) continue;  // nothing was given, or nobody wants it
      add_part(args.slots[slot], slot - i, block, blocks, sum(amounts_[i], threads));
    }
  }

 private:
  static TSL_INLINE double sum(double* amounts, uint count) {
    if (kThreads == 1) return amounts[0];
    typedef double Vector __attribute__((vector_size(kVector * sizeof(double)), may_alias));
    for (uint i = count; i % kVector != 0; ++i) amounts[i] = 0;
    Vector sums = {};
    for (uint i = 0; i < count; i += kVector) sums += *reinterpret_cast<const Vector*>(amounts + i);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }

  int slots_[kComponents] = {};
  alignas(64) double amounts_[kComponents][kThreads];  // rows of whole vectors, or of one
};

#else

// Of threads that meet, which no loop runs: each adds to its block's place.
struct ValueSums {
  HeldSums held;
  static constexpr uint kThreads = ~0u;
  template <class Thread, class T> TSL_INLINE void give(const Thread& thread, int slot, int component, uint, T amount) {
    const ulonglong place = thread.args.slots[slot];
    if (place != 0) add_part(place, component, thread.block_number(), thread.block_count(), double(amount));
  }
  TSL_INLINE void add_up(const TslArgs& args, ulonglong, ulonglong, uint) { held.end(args); }
};

#endif

}  // namespace tsl
