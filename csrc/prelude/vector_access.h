// Elements that several threads of a launch load and store together, 16 bytes at a time.
//
// Note [vector accesses]
//   Memory is fastest where a GPU thread moves 16 bytes at once. So its virtual threads come in groups of TSL_LANES that
//   follow each other along x: where a view is contiguous, the elements that the lanes of a group have of it (Note [own
//   elements]) then lie in runs without gaps, which are moved in vectors of up to 16 bytes.
//     - An input's vectors are loaded before the lanes run. A lane that loads an element of its own, or of a neighbour in the
//       group, finds it in a register; all other loads go to memory. Nothing need be proved.
//     - What a lane stores to an element of its own goes to a register, with a note that it was stored. After the lanes,
//       vectors are stored if all lanes have stored all of theirs, and else each stored element by itself. All other stores go
//       to memory at once.
//     - Gradients that threads keep in registers are loaded from vectors and left in them.
//     - What lanes add to other gradients' elements of their own, or of neighbours, is summed before it is added to memory.
//   Which element a load or a store is of must be seen by the compiler, so that one register is left of all comparisons. Where
//   only running tells it, the mark `dynamic <view>` stays, and the run-time compiles the kernel again without neighbours, or, if
//   a lane has several elements, without vectors for the view.
//   So that compilers see it, nothing here is a loop or captured by reference: the work for each lane, vector or element is a
//   template that calls itself, and the lane is passed by value.
//   Vectors are for tiles inside the launch's bounds, and for addresses that are multiples of 16: the run-time sees to it.
#pragma once

#include "prelude/own.h"

#if TSL_LANES > 1

namespace tsl {

// The elements of a view that the lanes of a group have. kComponents numbers of type S make an element.
template <int kView, class S, int kComponents, class Dims>
class Piece {
  static constexpr uint kLane = Dims::kRun * kComponents;  // numbers of a lane that follow each other
  static constexpr uint kRun = TSL_LANES * kLane;  // and of the group
  static constexpr uint kRuns = Dims::kSize / Dims::kRun;
  static constexpr uint kBytes = kRun * sizeof(S);
  static constexpr uint kAccess = access_bytes(kBytes);
  using Access = typename WordOf<kAccess>::type;

 public:
  // One of the numbers that a lane has, in the order of its elements.
  TSL_INLINE S& number(uint lane, uint n) { return numbers_[n / kLane][lane * kLane + n % kLane]; }
  TSL_INLINE const S& number(uint lane, uint n) const { return numbers_[n / kLane][lane * kLane + n % kLane]; }

  // An element from here or to here, counted lane by lane. T is as large as an element.
  template <uint kElement, class T> TSL_INLINE void get(T& value) const {
    TSL_COPY(&value, &number(kElement / Dims::kSize, kElement % Dims::kSize * kComponents), sizeof(T));
  }
  template <uint kElement, class T> TSL_INLINE void set(T value) {
    TSL_COPY(&number(kElement / Dims::kSize, kElement % Dims::kSize * kComponents), &value, sizeof(T));
  }

  // `first`: the thread that is the group's first lane.
  template <class Thread> TSL_INLINE void load(const Thread& first) {
    const View view = first.view(kView);
    if (!view.is_missing()) load_from<0>(view, first);
  }
  template <class Thread> TSL_INLINE void store(const Thread& first) const {
    const View view = first.view(kView);
    if (!view.is_missing()) store_from<0>(view, first);
  }
  // Of one element alone.
  template <uint kElement, class Thread> TSL_INLINE void store_one(const Thread& first) const {
    const View view = first.view(kView);
    if (view.is_missing()) return;
    constexpr uint kLaneNumber = kElement / Dims::kSize, kNumber = kElement % Dims::kSize;
    Thread thread = first;
    thread.threadIdx.x += kLaneNumber;
    S* to = reinterpret_cast<S*>(view.data + Dims::template offset<0>(view, thread, kNumber));
    for (int c = 0; c < kComponents; ++c) to[c] = number(kLaneNumber, kNumber * kComponents + c);
  }

 private:
  static constexpr uint kAccesses = kBytes / kAccess;  // of a run

  // The vectors from number kNumber on, run by run.
  template <uint kNumber, class Thread> TSL_INLINE void load_from(const View& view, const Thread& first) {
    if constexpr (kNumber < kRuns * kAccesses) {
      const Access vector = read_whole(address<kNumber>(view, first), TSL_INDEPENDENT);
      TSL_COPY(&numbers_[kNumber / kAccesses][kNumber % kAccesses * (kAccess / sizeof(S))], &vector, kAccess);
      load_from<kNumber + 1>(view, first);
    }
  }
  template <uint kNumber, class Thread> TSL_INLINE void store_from(const View& view, const Thread& first) const {
    if constexpr (kNumber < kRuns * kAccesses) {
      Access vector;
      TSL_COPY(&vector, &numbers_[kNumber / kAccesses][kNumber % kAccesses * (kAccess / sizeof(S))], kAccess);
      *address<kNumber>(view, first) = vector;
      store_from<kNumber + 1>(view, first);
    }
  }
  template <uint kNumber, class Thread> static TSL_INLINE Access* address(const View& view, const Thread& first) {
    const longlong run = Dims::template offset<0>(view, first, kNumber / kAccesses * Dims::kRun);
    return reinterpret_cast<Access*>(view.data + run) + kNumber % kAccesses;
  }

  S numbers_[kRuns][kRun];  // not cleared: that would be a loop
};

// kNeighbours: elements of the other lanes are given, too.
template <int kView, class S, int kComponents, class Dims, bool kNeighbours>
class InputPiece {
  // So far from the group, at most, a load is known to be of no lane's element. Stencils reach so far.
  static constexpr uint kWindow = 8;

 public:
  template <class Thread> TSL_INLINE void begin(const Thread& first) { piece_.load(first); }
  template <class Thread> TSL_INLINE void end(const Thread&) const {}

  // Whether `value` was found.
  template <class T, class... Index> TSL_INLINE bool load(VectorLane lane, T& value, Index... index) const {
    if constexpr (sizeof(T) != kComponents * sizeof(S) || sizeof...(Index) != Dims::kRank) {
      return false;
    } else if constexpr (kNeighbours) {
      return from_lane<0>(lane, value, index...);
    } else {
      if (!Dims::holds(lane, 0u, index...)) return false;
      const uint element = lane.number * Dims::kSize + Dims::number(index...);
      return from_element<0>(value, element);
    }
  }

 private:
  template <uint kOther, class T, class... Index>
  TSL_INLINE bool from_lane(VectorLane lane, T& value, Index... index) const {
    if constexpr (kOther == TSL_LANES) return is_beside<0>(lane, index...);
    else if (!Dims::holds(lane, kOther - lane.number, index...)) return from_lane<kOther + 1>(lane, value, index...);
    else piece_.template get<kOther>(value);
    return true;
  }
  // False: it leaves the mark only if that is not seen to be so.
  template <uint kStep, class... Index> TSL_INLINE bool is_beside(VectorLane lane, Index... index) const {
    if constexpr (kStep == kWindow) mark_dynamic(kView);
    else if (!Dims::holds(lane, 0u - lane.number - (kStep + 1), index...) &&
             !Dims::holds(lane, TSL_LANES - lane.number + kStep, index...))
      is_beside<kStep + 1>(lane, index...);
    return false;
  }
  template <uint kElement, class T> TSL_INLINE bool from_element(T& value, uint element) const {
    if constexpr (kElement == TSL_LANES * Dims::kSize) {
      mark_dynamic(kView);
      return false;
    } else {
      if (element != kElement) return from_element<kElement + 1>(value, element);
      piece_.template get<kElement>(value);
      return true;
    }
  }

  Piece<kView, S, kComponents, Dims> piece_;
};

template <int kView, class S, int kComponents, class Dims>
class OutputPiece {
 public:
  template <class Thread> TSL_INLINE void begin(const Thread&) { forget<0>(); }
  template <class Thread> TSL_INLINE void end(const Thread& first) const {
    if (all_stored<0>()) piece_.store(first);
    else store_each<0>(first);
  }

  // Whether there is a value that the lane has stored.
  template <class T, class... Index> TSL_INLINE bool load(VectorLane lane, T& value, Index... index) const {
    if constexpr (sizeof(T) != kComponents * sizeof(S) || sizeof...(Index) != Dims::kRank) {
      return false;
    } else {
      if (!Dims::holds(lane, 0u, index...)) return false;
      return load_element<0>(value, lane.number * Dims::kSize + Dims::number(index...));
    }
  }
  // Whether the element is the lane's own.
  template <class T, class... Index> TSL_INLINE bool store(VectorLane lane, T value, Index... index) {
    if constexpr (sizeof(T) != kComponents * sizeof(S) || sizeof...(Index) != Dims::kRank) {
      return false;
    } else {
      if (!Dims::holds(lane, 0u, index...)) return false;
      return store_element<0>(value, lane.number * Dims::kSize + Dims::number(index...));
    }
  }

 private:
  static constexpr uint kElements = TSL_LANES * Dims::kSize;

  template <uint kFrom> TSL_INLINE void forget() {
    if constexpr (kFrom < kElements) {
      stored_[kFrom] = false;
      forget<kFrom + 1>();
    }
  }
  template <uint kElement, class T> TSL_INLINE bool load_element(T& value, uint element) const {
    if constexpr (kElement == kElements) {
      mark_dynamic(kView);
      return false;
    } else {
      if (element != kElement) return load_element<kElement + 1>(value, element);
      if (!stored_[kElement]) return false;
      piece_.template get<kElement>(value);
      return true;
    }
  }
  template <uint kElement, class T> TSL_INLINE bool store_element(T value, uint element) {
    if constexpr (kElement == kElements) {
      mark_dynamic(kView);
      return false;
    } else {
      if (element != kElement) return store_element<kElement + 1>(value, element);
      piece_.template set<kElement>(value);
      stored_[kElement] = true;
      return true;
    }
  }
  template <uint kFrom> TSL_INLINE bool all_stored() const {
    if constexpr (kFrom == kElements) return true;
    else return stored_[kFrom] && all_stored<kFrom + 1>();
  }
  template <uint kFrom, class Thread> TSL_INLINE void store_each(const Thread& first) const {
    if constexpr (kFrom < kElements) {
      if (stored_[kFrom]) piece_.template store_one<kFrom>(first);
      store_each<kFrom + 1>(first);
    }
  }

  Piece<kView, S, kComponents, Dims> piece_;
  bool stored_[kElements];
};

// Adds so many sums to elements that follow each other, the first of which is aligned to all of them together.
template <uint kCount, class S>
TSL_INLINE void add_to_memory(S* to, const SumOf<S>* sums) {
  bool any = false;
  for (uint i = 0; i < kCount; ++i) any = any || sums[i] != SumOf<S>(0);
  if (!any) return;
#if __CUDA_ARCH__ >= 900
  if constexpr (IsSame<S, float>::value && kCount == 4) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" : : "l"(__cvta_generic_to_global(to)), "f"(sums[0]),
                 "f"(sums[1]), "f"(sums[2]), "f"(sums[3]) : "memory");
    return;
  }
#endif
  for (uint i = 0; i < kCount; ++i) {
    if (sums[i] != SumOf<S>(0)) atomicAdd(to + i, S(sums[i]));
  }
}

// Of a gradient that threads add to atomically: what the lanes add to elements of their own and of neighbours. Where only
// running tells which those are, a few comparisons are nothing beside what they may save.
template <int kView, class S, int kComponents, class Dims>
class SumPiece {
  static constexpr uint kReach = 2, kSlots = TSL_LANES + 2 * kReach;  // elements before and behind the lanes' own

 public:
  template <class Thread> TSL_INLINE void begin(const Thread&) { clear<0>(); }
  template <class Thread> TSL_INLINE void end(const Thread& first) const {
    const View view = first.view(kView);
    if (view.is_missing()) return;
    mark_add(kView);
    S* own = reinterpret_cast<S*>(view.data + Dims::template offset<0>(view, first, 0));
    add_beside<0>(own);
    add_to_memory<TSL_LANES * kComponents>(own, sums_[kReach]);
  }

  // Whether the element is near.
  template <class Thread, class T, class Index> TSL_INLINE bool add(const Thread& thread, T amount, Index index) {
    constexpr int kRank = kIsVector<Index> ? Traits<Index>::size : 1;
    if constexpr (sizeof(T) != kComponents * sizeof(S) || kRank != Dims::kRank) return false;
    else return add_from<0>(thread, amount, index);
  }

 private:
  template <uint kFrom> TSL_INLINE void clear() {
    if constexpr (kFrom < kSlots * kComponents) {
      sums_[kFrom / kComponents][kFrom % kComponents] = SumOf<S>(0);
      clear<kFrom + 1>();
    }
  }
  template <uint kSlot, class Thread, class T, class Index>
  TSL_INLINE bool add_from(const Thread& thread, T amount, Index index) {
    if constexpr (kSlot == kSlots) {
      return false;
    } else {
      if (!Dims::holds(thread, kSlot - kReach - thread.lane, index)) return add_from<kSlot + 1>(thread, amount, index);
      S numbers[kComponents];
      TSL_COPY(numbers, &amount, sizeof(T));
      add_components<kSlot, 0>(numbers);
      return true;
    }
  }
  template <uint kSlot, int kFrom> TSL_INLINE void add_components(const S* numbers) {
    if constexpr (kFrom < kComponents) {
      sums_[kSlot][kFrom] += SumOf<S>(numbers[kFrom]);
      add_components<kSlot, kFrom + 1>(numbers);
    }
  }
  // Elements that are not the lanes' own; those that nobody has added to need not exist.
  template <uint kFrom> TSL_INLINE void add_beside(S* own) const {
    if constexpr (kFrom < kReach) {
      add_to_memory<kComponents>(own + (int(kFrom) - int(kReach)) * kComponents, sums_[kFrom]);
      add_to_memory<kComponents>(own + (TSL_LANES + kFrom) * kComponents, sums_[kReach + TSL_LANES + kFrom]);
      add_beside<kFrom + 1>(own);
    }
  }

  SumOf<S> sums_[kSlots][kComponents];
};

// Of a gradient that threads keep in registers.
template <int kView, class S, int kComponents, class Dims, bool kGiven>
class GradientPiece : public Piece<kView, S, kComponents, Dims> {
 public:
  template <class Thread> TSL_INLINE void begin(const Thread& first) {
    if (kGiven) this->load(first);
  }
  template <class Thread> TSL_INLINE void end(const Thread& first) const {
    if (!kGiven) this->store(first);
  }
};

}  // namespace tsl

#endif
