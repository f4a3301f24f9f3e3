// A kernel object whose lanes sum first what they add atomically to the same elements of gradients.
//
// Note [wave sums]
//   Threads that lie beside each other often work on the same object (a Gaussian of a picture's tile, a node of a mesh), so
//   the lanes of a wave add to the same elements at once: 32 atomic additions where one would do. That is only known when
//   the kernel runs. So the lanes that are here compare their elements; if all have the same, their amounts are summed
//   (Note [wave exchange]) and added once; else lanes beside each other that have the same sum theirs (Note [wave runs]).
//
//   Straight-line code that makes several additions (ten numbers of one Gaussian) compares and sums them all at its end:
//   TSL_SUMS_BEGIN and TSL_SUMS_END stand around such runs (compiler/emit/addition_runs.h). Until then what a lane has to add is
//   kept in registers. Every addition of a run takes its place there, whether it has something to add or not, so a place is
//   the same for all lanes and known to the compiler. Additions that are not floats, or are outside a run, are compared one by one.
//
//   Who is here is asked right before lanes exchange something, and between the question and the last exchange all branches
//   are taken by all of these lanes or by none. So whatever brought them together, none waits for one that does not come;
//   lanes that the hardware runs apart from each other sum apart from each other.
//
//   Additions wait, and others make them: so this is only for gradients that the kernel does not take anything from
//   (load_kernel.cpp sees to it). Each sum has the type that sums are kept in: halves are rounded once, not 32 times.
//
// Note [seen additions]
//   What a user's own atomic addition added to (tsl_add_only), the same thread may read in its next statement, or it may tell
//   another block that the sum is there. So the lanes that sum meet once more (__syncwarp), which orders memory among them: to
//   each of them the addition is made before it goes on, whichever lane made it. Runs of such additions end before anything
//   reaches memory (compiler/emit/addition_runs.h).
#pragma once

#include "prelude/kernel_base.h"
#include "prelude/wave_exchange.h"

#define TSL_SUMS_BEGIN(count, sizes) own.wave_sums.template begin<count>(sizes)
#define TSL_SUMS_BEGIN_BESIDE(count, sizes) TSL_SUMS_BEGIN(count, sizes)
#define TSL_SUMS_END(count, sizes) own.wave_sums.template end<count, sizes>()
#define TSL_SUMS_END_SEEN(count, sizes) own.wave_sums.template end_seen<count, sizes>()

namespace tsl {

constexpr int kMostInRun = 12;  // as in compiler/emit/addition_runs.cpp
constexpr int kMostAtOnce = 16;  // numbers of one element
constexpr uint kFewLanes = 4;  // fewer add by themselves

// The lanes that are here.
struct LanesHere {
  WarpMask mask = __activemask();
  uint lane = _getLaneId();

  template <class T> TSL_INLINE T from(T value, uint other) const { return shuffle(mask, value, int(other)); }
  TSL_INLINE bool are_few() const { return count_of_bits(mask) < kFewLanes; }
  TSL_INLINE bool is_as_first(uint word) const { return from(word, lowest_bit(mask)) == word; }
  TSL_INLINE bool has_below() const { return lane > 0 && (mask >> (lane - 1) & 1u) != 0; }
  TSL_INLINE bool is_as_below(uint word) const {
    return (from(word, has_below() ? lane - 1 : lane) == word) & has_below();
  }
  TSL_INLINE uint those_with(bool property) const { return __ballot_sync(mask, int(property)); }
  // Those of the first kCount bits that all lanes have.
  template <int kCount> TSL_INLINE uint in_all(uint bits) const {
#if __CUDA_ARCH__ >= 800
    if (kCount > 1) return __reduce_and_sync(mask, bits);
#endif
    uint all = 0;
    TSL_UNROLL for (int i = 0; i < kCount; ++i) all |= uint(__all_sync(mask, int(bits >> i & 1u)) != 0) << i;
    return all;
  }
};

constexpr int bits_of(uint most) { return most == 0 ? 0 : 1 + bits_of(most / 2); }

// Where an addition goes, in a word, so that one exchange compares: the view's number plus one above the element's number; 0 if
// nothing is added. Of a kernel of eight to fifteen views elements from the 2^28th on have no room there, and are not summed.
constexpr int kElementBits = 32 - bits_of(TSL_VIEW_COUNT);
TSL_INLINE uint sum_target(int view, ulonglong element) { return uint(view + 1) << kElementBits | uint(element); }

template <class S> struct AddToMemory {
  template <class T> TSL_INLINE void operator()(S* place, T sum) const { atomicAdd(place, S(sum)); }
};

// Lanes that do not all have one element. `goes_on`: whether the lane below has this lane's. `element` is null if nothing is
// added, as it is in a whole run then.
template <class M, class S, int kCount>
TSL_INLINE void add_by_runs(const LanesHere& lanes, bool goes_on, M* element, S (&amounts)[kCount]) {
  const WaveRuns<LanesHere> runs(lanes, goes_on);
  const bool are_summed = runs.are_worth_it();
  if (are_summed) runs.sum(amounts);
  if (element != nullptr && !(are_summed && goes_on)) add_atomically(element, amounts);
}

// By itself. `element` is null if nothing is added.
template <class M, class S, int kCount>
TSL_INLINE void add_by_wave(uint target, M* element, S (&amounts)[kCount]) {
  if (element == nullptr) return;
  if constexpr (kCount <= kMostAtOnce) {
    const LanesHere lanes;
    if (!lanes.are_few()) {
      if (lanes.in_all<1>(uint(lanes.is_as_first(target))) == 0) {
        return add_by_runs(lanes, lanes.is_as_below(target), element, amounts);
      }
      M* places[kCount];
      TSL_UNROLL for (int i = 0; i < kCount; ++i) places[i] = element + i;
      return WaveExchange<LanesHere>(lanes).sum(amounts, places, AddToMemory<M>());
    }
  }
  add_atomically(element, amounts);
}

// What a thread adds in a run. Compilers see late what lies in which run, and inline all code until then: so they are told
// whether any addition lies in none (TSL_SINGLE_SUMS), and how many numbers the elements of a run have. No loops over
// members, whose indices would be no constants until compilers unroll them, and the members no registers.
class WaveSums {
 public:
  // `sizes`, kSizes: bit n stands for elements of n numbers.
  template <int kRoom> TSL_INLINE void begin(uint sizes) {
    static_assert(kRoom <= kMostInRun, "a run has no more numbers than that");
    used_ = 0;
    room_ = kRoom;
    sizes_ = sizes;
    clear<0>();
  }

  template <int kRoom, uint kSizes> TSL_INLINE void end() {
    room_ = 0;
    float numbers[kRoom];
    float* places[kRoom];
    if (!copy<0>(numbers, places)) return;
    const LanesHere lanes;
    const bool are_few = lanes.are_few();
    const uint same = are_few ? 0u : lanes.in_all<kRoom>(as_in_first<0, kRoom>(lanes));
    if (same != (1u << used_) - 1u) add_others<0, kSizes>(lanes, are_few, same, numbers, places);
    if (same != 0) WaveExchange<LanesHere>(lanes).sum(numbers, places, AddToMemory<float>());
  }

  // An addition to a gradient that may be summed: all lanes of a run come here, also if `is_added` is false.
  template <class T, class Index, class M>
  TSL_INLINE void add(const ThreadBase& thread, const View& view, Index index, T amount, M, bool is_added) {
    unsigned char* element = is_added ? view.address_of<unsigned char>(index) : nullptr;
    if (is_added && M::value == kReplicated) {  // any replica will do: the lanes of a wave take the same one
      const uint number = uint(thread.thread_number() / warpSize) % replicas_of(thread.args, view);
      element = replica(thread.args, view, element, number);
    }
    with_numbers<T>(view, [&](auto s) TSL_INLINE_LAMBDA {
      using S = decltype(s);
      constexpr int kCount = sizeof(T) / sizeof(S);
      if constexpr (kCount > 0) {
        S numbers[kCount];
        SumOf<S> amounts[kCount];
        TSL_COPY(numbers, &amount, sizeof numbers);
        TSL_UNROLL for (int i = 0; i < kCount; ++i) amounts[i] = SumOf<S>(numbers[i]);
        const ulonglong offset = ulonglong(view.offset(index));
        if constexpr (M::value == kAtomic) give(view.id, offset, reinterpret_cast<S*>(element), amounts);
        else give(view.id, offset, reinterpret_cast<SumOf<S>*>(element), amounts);
      }
    });
  }

  // An addition of the user's own (Note [seen additions]).
  template <class T> TSL_INLINE void add_only(const AtomicPlace<T>& place, T amount) {
    if constexpr (kScalarOf<T> >= kFloat16 && kScalarOf<T> <= kFloat64) {
      const WarpMask here = __activemask();
      SumOf<T> amounts[] = {SumOf<T>(amount)};
      give(place.view, place.offset, place.is_spare ? nullptr : place.address, amounts);
      if (room_ == 0) __syncwarp(here);
    } else {
      atomicAdd(place, amount);
    }
  }
  template <int kRoom, uint kSizes> TSL_INLINE void end_seen() {
    const WarpMask here = __activemask();
    end<kRoom, kSizes>();
    __syncwarp(here);
  }

 private:
  // `element`: null if nothing is added.
  template <class M, class S, int kCount>
  TSL_INLINE void give(int view, ulonglong offset, M* element, S (&amounts)[kCount]) {
    uint target = 0;
    if (element != nullptr) {
      const ulonglong number = offset / sizeof(M);
      target = sum_target(view, number);
      if (number >> kElementBits != 0) {
        add_atomically(element, amounts);
        element = nullptr;
        target = 0;
      }
    }
    if constexpr (IsSame<M, float>::value && kCount <= 4) {
      if (used_ + kCount <= room_ && (sizes_ >> kCount & 1u) != 0) {
        put<0>(target, element, amounts);
        used_ += kCount;
        return;
      }
    }
    if constexpr (TSL_SINGLE_SUMS) add_by_wave(target, element, amounts);
    else if (element != nullptr) add_atomically(element, amounts);
  }

  template <int kAt> TSL_INLINE void clear() {
    if constexpr (kAt < kMostInRun) {
      counts_[kAt] = 0;
      clear<kAt + 1>();
    }
  }

  template <int kAt, int kCount>
  TSL_INLINE void put(uint target, float* element, const float (&amounts)[kCount]) {
    if constexpr (kAt + kCount <= kMostInRun) {
      if (used_ != kAt) return put<kAt + 1>(target, element, amounts);
      counts_[kAt] = kCount;
      targets_[kAt] = target;
      put_from<kAt, 0>(element, amounts);
    }
  }
  template <int kAt, int kFrom, int kCount> TSL_INLINE void put_from(float* element, const float (&amounts)[kCount]) {
    if constexpr (kFrom < kCount) {
      places_[kAt + kFrom] = element == nullptr ? nullptr : element + kFrom;
      amounts_[kAt + kFrom] = amounts[kFrom];
      put_from<kAt, kFrom + 1>(element, amounts);
    }
  }

  // Whether there is anything to add.
  template <int kAt, int kRoom> TSL_INLINE bool copy(float (&numbers)[kRoom], float* (&places)[kRoom]) const {
    if constexpr (kAt < kRoom) {
      places[kAt] = kAt < used_ ? places_[kAt] : nullptr;
      numbers[kAt] = places[kAt] != nullptr ? amounts_[kAt] : 0.0f;
      const bool rest = copy<kAt + 1>(numbers, places);
      return places[kAt] != nullptr || rest;
    }
    return false;
  }

  // A bit for each number: its element is the first lane's, too.
  template <int kAt, int kRoom> TSL_INLINE uint as_in_first(const LanesHere& lanes) const {
    if constexpr (kAt < kRoom) {
      uint same = 0;
      if (kAt < used_ && counts_[kAt] > 0 && lanes.is_as_first(targets_[kAt])) same = ((1u << counts_[kAt]) - 1u) << kAt;
      return same | as_in_first<kAt + 1, kRoom>(lanes);
    }
    return 0;
  }

  // Elements that are not the same in all lanes are added now, by runs of lanes, and left out of the wave's sum.
  template <int kAt, uint kSizes, int kRoom>
  TSL_INLINE void add_others(const LanesHere& lanes, bool are_few, uint same, float (&numbers)[kRoom],
                             float* (&places)[kRoom]) const {
    if constexpr (kAt < kRoom) {
      if (kAt < used_ && (same >> kAt & 1u) == 0) {
        if (counts_[kAt] > 0) add_element<kAt, 1, kSizes>(lanes, are_few, numbers, places[kAt]);
        places[kAt] = nullptr;
      }
      add_others<kAt + 1, kSizes>(lanes, are_few, same, numbers, places);
    }
  }
  template <int kAt, int kCount, uint kSizes, int kRoom>
  TSL_INLINE void add_element(const LanesHere& lanes, bool are_few, const float (&numbers)[kRoom],
                              float* element) const {
    if constexpr (kCount <= 4 && kAt + kCount <= kRoom && (kSizes >> kCount & 1u) == 0) {
      add_element<kAt, kCount + 1, kSizes>(lanes, are_few, numbers, element);
    } else if constexpr (kCount <= 4 && kAt + kCount <= kRoom) {
      constexpr bool kMayBeMore = (kSizes >> kCount) > 1u;
      if (kMayBeMore && counts_[kAt] != kCount)
        return add_element<kAt, kCount + 1, kSizes>(lanes, are_few, numbers, element);
      float amounts[kCount];
      TSL_UNROLL for (int i = 0; i < kCount; ++i) amounts[i] = numbers[kAt + i];
      if (are_few) {
        if (element != nullptr) add_atomically(element, amounts);
        return;
      }
      add_by_runs(lanes, lanes.is_as_below(targets_[kAt]), element, amounts);
    }
  }

  int used_ = 0, room_ = 0;  // numbers
  uint sizes_ = 0;  // of elements
  // By number. The target and count of an element are at the place of its first number; the other places have count 0.
  int counts_[kMostInRun];
  uint targets_[kMostInRun];
  float* places_[kMostInRun];
  float amounts_[kMostInRun];
};

// In place of what KernelBase else has there.
template <class Own> struct SummingOwn : Own {
  WaveSums wave_sums;
};
template <class Own> constexpr bool kHasWaveSums<SummingOwn<Own>> = true;

}  // namespace tsl
