// Sums that are held until the next one goes elsewhere.
//
// Note [held sums]
//   Additions often go where those before them went: gradients of a camera or of a network's few numbers, which all threads
//   add to. On a GPU a wave's sums end in the same lanes each time (Note [wave exchange] in wave_exchange.h), so a lane keeps its last sum,
//   and what comes for the same place is added to it: by another iteration of a loop, or by another virtual thread. At the
//   end the waves of a block add what they hold for the same places together, and the block adds it to memory once.
//   On the host the threads of a row run one after the other on a core. What they add to a gradient of a few numbers is held in
//   double, and added atomically at the row's end, or when it must give way to another tensor's. A kernel that reads a
//   gradient which it adds to holds nothing (load_kernel.cpp sees to it). Larger gradients are added to at once: no core waits for
//   another there, and to look each time whether the place is the last one takes longer than an addition.
#pragma once

#include "prelude/atomics.h"
#include "prelude/views.h"

#if TSL_CUDA

namespace tsl {

// Of the hardware: the launch's threads may stand in another order (Note [vector accesses]).
TSL_INLINE uint thread_of_block() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
TSL_INLINE uint wave_of_launch() {
  const uint waves = (blockDim.x * blockDim.y * blockDim.z + 31u) / 32u;
  return ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * waves + thread_of_block() / 32u;
}

// Note [addition targets] in abi.h. An element's number is its distance from the view's first in sizes of an element.
constexpr int kElementBits = tsl_element_bits(TSL_VIEW_COUNT);
TSL_INLINE uint addition_target(int view, uint element) { return (uint(view + 1) << kElementBits) + element; }
// Where the view's first number is; null if nobody wants the gradient.
TSL_INLINE float* view_of(const TslArgs& args, uint target) {
  return reinterpret_cast<float*>(args.views[(target >> kElementBits) - 1u].data);
}
TSL_INLINE uint element_of(uint target) { return target & ((1u << kElementBits) - 1u); }
// Null if there is nothing to add, or nobody wants it.
TSL_INLINE float* place_of(const TslArgs& args, uint target) {
  float* const view = target == 0 ? nullptr : view_of(args, target);
  return view == nullptr ? nullptr : view + element_of(target);
}
// Not by place_of, of whose pointer compilers test all 64 bits once more.
TSL_INLINE void add_to(const TslArgs& args, uint target, float amount) {
  if (target == 0) return;
  float* const view = view_of(args, target);
  if (view != nullptr) atomicAdd(view + element_of(target), amount);
}

#if TSL_HELD_SUMS
class HeldSums {
 public:
  TSL_INLINE void add(const TslArgs& args, uint target, float sum) {
    const bool is_next = target == target_;
    if (!is_next) add_to(args, target_, sum_);
    sum_ = is_next ? sum_ + sum : sum;
    target_ = target;
  }

  // All threads of the block are here.
  TSL_INLINE void end(const TslArgs& args) {
    __shared__ uint targets[32];  // of the first wave's lanes
    __shared__ float sums[32];
    const uint thread = thread_of_block(), lane = thread % 32u;
    const bool is_first = thread < 32u;
    if (is_first) {
      targets[lane] = target_;
      sums[lane] = sum_;
    }
    __syncthreads();
    const bool is_met = !is_first && target_ != 0 && targets[lane] == target_;
    if (is_met) atomicAdd(&sums[lane], sum_);
    __syncthreads();
    if (!is_met) add_to(args, target_, is_first ? sums[lane] : sum_);
  }

 private:
  uint target_ = 0;
  float sum_ = 0.0f;
};
#endif

}  // namespace tsl

#elif TSL_HELD_SUMS

namespace tsl {

class HeldSums {
  static constexpr ulonglong kPlaces = 16;

 public:
  template <class M> static TSL_INLINE bool are_held(const View& view, int numbers) {
    constexpr bool kMayBe = IsSame<M, float>::value || IsSame<M, double>::value;
    return kMayBe && view.element_count() * ulonglong(numbers) <= kPlaces;
  }
  template <class M, class S, int kCount> TSL_INLINE void add(M* element, const S (&amounts)[kCount]) {
    for (int i = 0; i < kCount; ++i) add_number(element + i, double(amounts[i]));
  }
  TSL_INLINE void end(const TslArgs&) {
    for (Held& held : all_) held.end();
  }

 private:
  struct Held {
    void* place = nullptr;
    bool is_double = false;
    double sum = 0;

    TSL_INLINE void end() {
      if (place == nullptr) return;
      if (is_double) atomicAdd(static_cast<double*>(place), sum);
      else atomicAdd(static_cast<float*>(place), float(sum));
      place = nullptr;
    }
  };

  template <class M> TSL_INLINE void add_number(M* place, double amount) {
    Held& held = all_[reinterpret_cast<ulonglong>(place) / sizeof(M) % kPlaces];
    if (held.place != place) {
      held.end();
      held = {place, sizeof(M) == sizeof(double), 0};
    }
    held.sum += amount;
  }

  Held all_[kPlaces];
};

}  // namespace tsl

#endif

#if !TSL_HELD_SUMS
namespace tsl {
struct HeldSums {
  TSL_INLINE void end(const TslArgs&) {}
};
}  // namespace tsl
#endif
