// A kernel object whose lanes sum first what they add atomically to the same elements of gradients.
//
// Note [wave sums]
//   Threads that lie beside each other often work on the same object (a Gaussian of a picture's tile, a node of a mesh), so
//   the lanes of a wave add to the same elements at once: 32 atomic additions where one would do. That is only known when
//   the kernel runs. So the lanes compare their elements; if all have the same, their amounts are summed
//   (Note [wave exchange]) and added once; else lanes beside each other that have the same sum theirs (Note [wave runs]).
//
//   Straight-line code that makes several additions (ten numbers of one Gaussian) compares and sums them all at its end:
//   TSL_SUMS_BEGIN and TSL_SUMS_END stand around such runs (compiler/emit/addition_runs.h). Until then what a lane has to add is
//   kept in registers. Every addition of a run takes its place there, whether it has something to add or not, so a place is
//   the same for all lanes and known to the compiler. Additions that are not floats, or are outside a run, are compared one by one.
//
//   Some lanes may have nothing to add in an iteration of a loop (the Gaussian is too far from their pixel). They wait for the
//   others where the iteration ends, and the run is summed there: of a whole wave an exchange is one instruction, while
//   some lanes must find out first who is their neighbour.
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

#define TSL_SUMS_BEGIN(count, starts) own.wave_sums.template begin<count, starts>()
#define TSL_SUMS_BEGIN_BESIDE(count, starts) TSL_SUMS_BEGIN(count, starts)
#define TSL_SUMS_END(count, starts) own.wave_sums.template end<count, starts>(*this)
#define TSL_SUMS_END_SEEN(count, starts) own.wave_sums.template end_seen<count, starts>(*this)
#define TSL_SUMS_WAIT() own.wave_sums.wait()
#define TSL_SUMS_NEXT(label) goto label
#define TSL_SUMS_JOIN(label, count, starts) \
  label:                                    \
  TSL_SUMS_END(count, starts)

namespace tsl {

constexpr int kMostAtOnce = 16;  // numbers of one element
constexpr uint kFewLanes = 4;  // fewer add by themselves

// The lanes that are here.
struct LanesHere {
  static constexpr bool kIsWhole = false;
  WarpMask mask = __activemask();
  uint lane = _getLaneId();

  template <class T> TSL_INLINE T from(T value, uint other) const { return shuffle(mask, value, int(other)); }
  TSL_INLINE bool are_few() const { return count_of_bits(mask) < kFewLanes; }
  TSL_INLINE bool has_below() const { return lane > 0 && (mask >> (lane - 1) & 1u) != 0; }
  TSL_INLINE bool is_as_below(uint word) const {
    return (from(word, has_below() ? lane - 1 : lane) == word) & has_below();
  }
  TSL_INLINE uint those_with(bool property) const { return __ballot_sync(mask, int(property)); }
  TSL_INLINE bool all_have(bool property) const { return __all_sync(mask, int(property)) != 0; }
  // Those bits that all lanes have.
  TSL_INLINE uint in_all(uint bits) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_and_sync(mask, bits);
#else
    uint all = bits;
    for (uint rest = mask; rest != 0; rest &= rest - 1u) all &= from(bits, lowest_bit(rest));
    return all;
#endif
  }
};
// All 32: with a mask that is constant, an exchange is one instruction.
struct WholeWave {
  static constexpr bool kIsWhole = true;
  static constexpr WarpMask mask = ~0u;
  uint lane = _getLaneId();

  template <class T> TSL_INLINE T from(T value, uint other) const { return __shfl_sync(~0u, value, int(other)); }
  template <class T> TSL_INLINE T across(T value, uint bit) const { return __shfl_xor_sync(~0u, value, int(bit)); }
  TSL_INLINE bool all_have(bool property) const { return __all_sync(~0u, int(property)) != 0; }
  TSL_INLINE uint those_with(bool property) const { return __ballot_sync(~0u, int(property)); }
};

// Lanes that do not all have one element. `goes_on`: whether the lane below has this lane's. `element` is null if this lane
// adds nothing.
template <class M, class S, int kCount>
TSL_INLINE void add_by_runs(const LanesHere& lanes, bool goes_on, M* element, S (&amounts)[kCount]) {
  const WaveRuns<LanesHere> runs(lanes, goes_on);
  const bool are_summed = runs.are_worth_it();
  if (are_summed) runs.sum(amounts);
  if (element != nullptr && !(are_summed && goes_on)) add_atomically(element, amounts);
}

// An addition by itself.
template <class M, class S, int kCount>
TSL_INLINE void add_by_wave(uint target, M* element, S (&amounts)[kCount]) {
  if constexpr (kCount <= kMostAtOnce) {
    const LanesHere lanes;
    if (!lanes.are_few()) {
      if (!lanes.all_have(lanes.from(target, lowest_bit(lanes.mask)) == target)) {
        return add_by_runs(lanes, lanes.is_as_below(target), element, amounts);
      }
      M* places[kCount];
      TSL_UNROLL for (int i = 0; i < kCount; ++i) places[i] = element + i;
      const auto add = [](M* place, S sum) TSL_INLINE_LAMBDA { atomicAdd(place, M(sum)); };
      return WaveExchange<LanesHere>(lanes).sum(amounts, places, add);
    }
  }
  add_atomically(element, amounts);
}

// What a thread adds in a run of kCount floats. Bit n of kStarts: an element begins with the n-th. A target of zero: nothing is
// added to that element. No loops over members, whose indices would be no constants until compilers unroll them, and the
// members no registers.
template <int kNumbers, uint kStarts>
class RunAdditions {
 public:
  static constexpr int kCount = kNumbers;
  static constexpr bool begins(int number) { return (kStarts >> number & 1u) != 0; }
  // Of the element that begins there.
  static constexpr int size(int number) {
    int end = number + 1;
    while (end < kCount && !begins(end)) ++end;
    return end - number;
  }

  template <int kMost> TSL_INLINE RunAdditions(const uint (&targets)[kMost], const float (&amounts)[kMost]) {
    copy<0>(targets, amounts);
  }

  // Few lanes, each by itself.
  template <int kAt = 0> TSL_INLINE void add(const TslArgs& args) const {
    if constexpr (kAt < kCount) {
      float amounts[size(kAt)];
      TSL_UNROLL for (int i = 0; i < size(kAt); ++i) amounts[i] = amounts_[kAt + i];
      if (float* place = place_of(args, targets_[kAt])) add_atomically(place, amounts);
      add<kAt + size(kAt)>(args);
    }
  }

  // Whether all lanes that add have the same elements, and the sums were added, by add(target, sum). `adds`: this lane, which
  // else has anything here.
  template <class AddSum> TSL_INLINE bool add_same(const WholeWave& lanes, uint adding, uint adds, AddSum add) const {
    uint of_first[kCount];
    if (!lanes.all_have((difference<0>(lanes, lowest_bit(adding), of_first) == 0) | (adds == 0))) return false;
    float numbers[kCount];
    leave_out<0>(adds, numbers);
    add_sums(lanes, numbers, of_first, add);
    return true;
  }

  // All of these lanes add.
  TSL_INLINE void add_unlike(const TslArgs& args, const LanesHere& lanes) const {
    uint of_first[kCount];
    const uint same = lanes.in_all(those_same<0>(lanes, lowest_bit(lanes.mask), of_first));
    if (same != kAll) add_others<0>(args, lanes, same);
    if (same == 0) return;
    forget_others<0>(same, of_first);
    add_sums(lanes, amounts_, of_first, [&](uint target, float sum) TSL_INLINE_LAMBDA { add_to(args, target, sum); });
  }

 private:
  static constexpr uint kAll = kStarts & ((1u << kCount) - 1u);

  template <int kAt, int kMost> TSL_INLINE void copy(const uint (&targets)[kMost], const float (&amounts)[kMost]) {
    if constexpr (kAt < kCount) {
      amounts_[kAt] = amounts[kAt];
      if constexpr (begins(kAt)) targets_[kAt] = targets[kAt];
      copy<kAt + 1>(targets, amounts);
    }
  }
  // Into other registers: where lanes turn out to have other elements, the amounts are where they were.
  template <int kAt> TSL_INLINE void leave_out(uint adds, float (&numbers)[kCount]) const {
    if constexpr (kAt < kCount) {
      numbers[kAt] = select(adds, amounts_[kAt], 0.0f);
      leave_out<kAt + 1>(adds, numbers);
    }
  }

  // Fills `of_first` with the first lane's targets. Gives the bits in which they differ from this lane's, which are found sooner
  // than a chain of comparisons.
  template <int kAt, class Lanes> TSL_INLINE uint difference(const Lanes& lanes, uint first, uint (&of_first)[kCount]) const {
    if constexpr (kAt < kCount) {
      of_first[kAt] = lanes.from(targets_[kAt], first);
      return (of_first[kAt] ^ targets_[kAt]) | difference<kAt + size(kAt)>(lanes, first, of_first);
    }
    return 0;
  }
  template <int kAt, class Lanes> TSL_INLINE uint those_same(const Lanes& lanes, uint first, uint (&of_first)[kCount]) const {
    if constexpr (kAt < kCount) {
      of_first[kAt] = lanes.from(targets_[kAt], first);
      return uint(of_first[kAt] == targets_[kAt]) << kAt | those_same<kAt + size(kAt)>(lanes, first, of_first);
    }
    return 0;
  }
  template <int kAt> TSL_INLINE void forget_others(uint same, uint (&targets)[kCount]) const {
    if constexpr (kAt < kCount) {
      targets[kAt] = select(same & 1u << kAt, targets[kAt], 0u);
      forget_others<kAt + size(kAt)>(same, targets);
    }
  }

  // `targets`, of elements, are the same in all lanes.
  template <class Lanes, class AddSum>
  static TSL_INLINE void add_sums(const Lanes& lanes, const float (&amounts)[kCount], uint (&targets)[kCount], AddSum add) {
    float numbers[kCount];
    spread<0>(amounts, targets, numbers);
    WaveExchange<Lanes>(lanes).sum(numbers, targets, add);
  }
  // Each number of an element has a target of its own.
  template <int kAt>
  static TSL_INLINE void spread(const float (&amounts)[kCount], uint (&targets)[kCount], float (&numbers)[kCount]) {
    if constexpr (kAt < kCount) {
      numbers[kAt] = amounts[kAt];
      if constexpr (!begins(kAt)) targets[kAt] = targets[kAt - 1] == 0 ? 0u : targets[kAt - 1] + 1u;
      spread<kAt + 1>(amounts, targets, numbers);
    }
  }

  // Elements that are not the same in all lanes, by runs of lanes.
  template <int kAt> TSL_INLINE void add_others(const TslArgs& args, const LanesHere& lanes, uint same) const {
    if constexpr (kAt < kCount) {
      if ((same >> kAt & 1u) == 0) {
        constexpr int kSize = size(kAt);
        float amounts[kSize];
        TSL_UNROLL for (int i = 0; i < kSize; ++i) amounts[i] = amounts_[kAt + i];
        const uint target = targets_[kAt];
        const bool goes_on = lanes.is_as_below(target) & (target != 0);
        add_by_runs(lanes, goes_on, place_of(args, target), amounts);
      }
      add_others<kAt + size(kAt)>(args, lanes, same);
    }
  }

  uint targets_[kCount];  // of elements, where their first number is
  float amounts_[kCount];
};

// The run that a thread is in, or has given. Compilers see late what lies in which run, and inline all code until then: so they are
// told whether any addition lies in none (TSL_SINGLE_SUMS), and how a run is made up.
class WaveSums {
 public:
  template <int kCount, uint kStarts> TSL_INLINE void begin() {
    static_assert(kCount <= kTslMostInRun, "a run has no more numbers than that");
    is_given_ = 1;
    used_ = 0;
    room_ = kCount;
    starts_ = kStarts;
    clear<0>();
  }
  // The run's additions are given; they are made at the end, where others join that have none.
  TSL_INLINE void wait() { room_ = 0; }

  template <int kCount, uint kStarts, class Kernel> TSL_INLINE void end(const Kernel& kernel) {
    end_of<kCount, kStarts>(kernel.args, [&](uint target, float sum) TSL_INLINE_LAMBDA { kernel.tsl_add_sum(target, sum); });
  }

  // An addition to a gradient that may be summed: all lanes of a run come here, also if `is_added` is false. Nobody may want the
  // gradient; that is seen by the lane that adds the sum, and not for each number.
  template <class T, class Index, class M>
  TSL_INLINE void add(const ThreadBase& thread, const View& view, Index index, T amount, M, bool is_added) {
    with_numbers<T>(view, [&](auto s) TSL_INLINE_LAMBDA {
      using S = decltype(s);
      constexpr int kCount = sizeof(T) / sizeof(S);
      if constexpr (kCount > 0) {
        S numbers[kCount];
        SumOf<S> amounts[kCount];
        TSL_COPY(numbers, &amount, sizeof numbers);
        TSL_UNROLL for (int i = 0; i < kCount; ++i) amounts[i] = SumOf<S>(numbers[i]);
        ulonglong offset = ulonglong(view.offset(index));
        if constexpr (M::value == kAtomic) {
          give(view.id, offset, element_at<S>(view, offset), is_added, amounts);
        } else {
          if (is_added) {  // any replica will do: the lanes of a wave take the same one
            const uint number = wave_of_launch() % replicas_of(thread.args, view);
            offset += number * gradient_slot(thread.args, view, kTslReplicaStride, 0);
          }
          give(view.id, offset, element_at<SumOf<S>>(view, offset), is_added, amounts);
        }
      }
    });
  }

  // An addition of the user's own (Note [seen additions]).
  template <class T> TSL_INLINE void add_only(const AtomicPlace<T>& place, T amount) {
    if constexpr (kIsFloat<T>) {
      const WarpMask here = __activemask();
      SumOf<T> amounts[] = {SumOf<T>(amount)};
      give(place.view, place.offset, place.address, !place.is_spare, amounts);
      if (room_ == 0) __syncwarp(here);
    } else {
      atomicAdd(place, amount);
    }
  }
  template <int kCount, uint kStarts, class Kernel> TSL_INLINE void end_seen(const Kernel& kernel) {
    const WarpMask here = __activemask();
    end_of<kCount, kStarts>(kernel.args, [&](uint target, float sum) TSL_INLINE_LAMBDA {
      add_to(kernel.args, target, sum);
    });
    __syncwarp(here);
  }

 private:
  template <int kCount, uint kStarts, class AddSum> TSL_INLINE void end_of(const TslArgs& args, AddSum add_sum) {
    const uint adds = is_given_;
    is_given_ = 0;
    room_ = 0;
    RunAdditions<kCount, kStarts> additions(targets_, amounts_);
    if (__activemask() == ~0u) {
      const WholeWave lanes;
      const uint adding = lanes.those_with(adds != 0);
      if (adding == 0 || additions.add_same(lanes, adding, adds, add_sum)) return;
    }
    if (adds == 0) return;
    const LanesHere lanes;
    if (lanes.are_few()) additions.add(args);
    else additions.add_unlike(args, lanes);
  }

  // `offset`: so many bytes from the view's first element.
  template <class M, class S, int kCount>
  TSL_INLINE void give(int view, ulonglong offset, M* element, bool is_added, S (&amounts)[kCount]) {
    if constexpr (IsSame<M, float>::value && kCount <= kTslMostInRun) {
      constexpr uint kAfter = 1u << kCount;
      const bool fits = used_ + kCount <= room_ && (starts_ >> used_ & (kAfter - 1u)) == 1u &&
                        (used_ + kCount == room_ || (starts_ >> used_ & kAfter) != 0);
      if (fits) {
        put<0>(is_added ? addition_target(view, uint(offset) / uint(sizeof(float))) : 0u, amounts);
        used_ += kCount;
        return;
      }
    }
    add_single(addition_target(view, uint(offset / sizeof(M))), element, is_added, amounts);
  }

  template <class M, class S, int kCount>
  TSL_INLINE void add_single(uint target, M* element, bool is_added, S (&amounts)[kCount]) {
    if (!is_added || element == nullptr) return;
    if constexpr (TSL_SINGLE_SUMS) add_by_wave(target, element, amounts);
    else add_atomically(element, amounts);
  }

  template <int kAt, int kCount> TSL_INLINE void put(uint target, const float (&amounts)[kCount]) {
    if constexpr (kAt + kCount <= kTslMostInRun) {
      if (used_ != kAt) return put<kAt + 1>(target, amounts);
      targets_[kAt] = target;
      put_from<kAt, 0>(amounts);
    }
  }
  template <int kAt, int kFrom, int kCount> TSL_INLINE void put_from(const float (&amounts)[kCount]) {
    if constexpr (kFrom < kCount) {
      amounts_[kAt + kFrom] = amounts[kFrom];
      put_from<kAt, kFrom + 1>(amounts);
    }
  }
  template <int kAt> TSL_INLINE void clear() {
    if constexpr (kAt < kTslMostInRun) {
      targets_[kAt] = 0;
      amounts_[kAt] = 0.0f;
      clear<kAt + 1>();
    }
  }

  uint is_given_ = 0;  // whether there is anything to add
  int used_ = 0, room_ = 0;  // numbers
  uint starts_ = 0;
  // By number; the target of an element is at the place of its first number.
  uint targets_[kTslMostInRun];
  float amounts_[kTslMostInRun];
};

// In place of what KernelBase else has there.
template <class Own> struct SummingOwn : Own {
  WaveSums wave_sums;
};
template <class Own> constexpr bool kHasWaveSums<SummingOwn<Own>> = true;

}  // namespace tsl
