// Gradients of tensors of few elements, which all elements of a plain function's loop add to.
//
// Note [few elements]
//   A plain function that sees a tensor of a few numbers whole (parameters of a camera) adds to the same few gradients for
//   every element of its call. Atomic additions would wait for each other, so each thread keeps the sums of all of them
//   in registers, over all elements that it runs, and a block adds what its threads have to memory once, atomically. An
//   index that only running tells chooses among the registers. On the host, sums are those of a block's elements, in double.
//   Nothing need be proved. What finds no place here (a view of more dimensions than the index has) is added to memory.
#pragma once

#include "prelude/map.h"

#if TSL_MAP_SUMS

namespace tsl {

// kNumbers: that the view has at most. kIsReplicated: memory holds replicas, of which each block takes one.
template <int kView, class S, int kComponents, int kNumbers, bool kIsReplicated>
class FewGradients {
  static constexpr uint kElements = kNumbers / kComponents;
  using Sum = typename Choose<TSL_CUDA, SumOf<S>, double>::type;
  using Memory = typename Choose<kIsReplicated, SumOf<S>, S>::type;

 public:
  // Whether the element has a sum here, and the amount was added to it, or is not wanted.
  template <class Thread, class T, class Index> TSL_INLINE bool add(const Thread& thread, T amount, Index index) {
    if constexpr (sizeof(T) != kComponents * sizeof(S)) {
      return false;
    } else {
      const View view = thread.view(kView);
      if (!wanted(view, index)) return true;
      S numbers[kComponents];
      TSL_COPY(numbers, &amount, sizeof numbers);
      return with_index([&](auto... at) TSL_INLINE_LAMBDA {
        const uint element = number_of<0>(view, 0u, at...);
        if (view.dimensionCount != sizeof...(at) || element >= kElements) return false;
        add_in<0>(element, numbers);
        return true;
      }, index);
    }
  }

  // On a GPU all threads of the block are here.
  TSL_INLINE void end(const TslArgs& args, ulonglong block) {
    const View view = tsl_make_view(args, kView);
    if (view.is_missing()) return;
    mark_add(kView);
    const uint count = min(uint(view.element_count()) * kComponents, uint(kNumbers));
    const ulonglong replicas = kIsReplicated ? gradient_slot(args, view, kTslReplicas, 1) : 1;
    Memory* memory = reinterpret_cast<Memory*>(replica(args, view, view.data, uint(block % replicas)));
#if TSL_CUDA
    __shared__ Sum of_wave[32][kNumbers];
    sum_waves<0>(of_wave, count);
    __syncthreads();
    if (threadIdx.x >= count) return;
    Sum sum = of_wave[0][threadIdx.x];
    for (uint wave = 1; wave < (blockDim.x + 31) / 32; ++wave) sum += of_wave[wave][threadIdx.x];
    if (sum != Sum(0)) atomicAdd(memory + threadIdx.x, Memory(sum));
#else
    for (uint n = 0; n < count; ++n) {
      if (sums_[n] != Sum(0)) atomicAdd(memory + n, Memory(SumOf<S>(sums_[n])));
    }
#endif
  }

 private:
  // In row-major order, of a view of as many dimensions.
  template <int kDimension> static TSL_INLINE uint number_of(const View&, uint before) { return before; }
  template <int kDimension, class... Index>
  static TSL_INLINE uint number_of(const View& view, uint before, uint first, Index... rest) {
    if constexpr (kDimension == 0) return number_of<1>(view, first, rest...);
    else return number_of<kDimension + 1>(view, before * view.sizes[kDimension] + first, rest...);
  }

  // Registers have no index that only running tells, so on GPUs each is compared with.
  template <uint kFrom> TSL_INLINE void add_in(uint element, const S (&numbers)[kComponents]) {
    if constexpr (!TSL_CUDA) {
      for (int c = 0; c < kComponents; ++c) sums_[element * kComponents + c] += Sum(numbers[c]);
    } else if constexpr (kFrom < kElements) {
      if (element == kFrom) add_at<kFrom, 0>(numbers);
      add_in<kFrom + 1>(element, numbers);
    }
  }
  template <uint kElement, int kFrom> TSL_INLINE void add_at(const S (&numbers)[kComponents]) {
    if constexpr (kFrom < kComponents) {
      sums_[kElement * kComponents + kFrom] += Sum(numbers[kFrom]);
      add_at<kElement, kFrom + 1>(numbers);
    }
  }

#if TSL_CUDA
  template <uint kFrom> TSL_INLINE void sum_waves(Sum (&of_wave)[32][kNumbers], uint count) const {
    if constexpr (kFrom < kNumbers) {
      if (kFrom >= count) return;
      Sum sum = sums_[kFrom];
      for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
      if (threadIdx.x % 32 == 0) of_wave[threadIdx.x / 32][kFrom] = sum;
      sum_waves<kFrom + 1>(of_wave, count);
    }
  }
#endif

  Sum sums_[kNumbers] = {};
};

}  // namespace tsl

#endif
