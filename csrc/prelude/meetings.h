// Gradients that the lanes of a wave add to the same elements at the same time.
//
// Note [meetings]
//   Threads that lie beside each other often work on the same object (a Gaussian of a picture's tile, a node of a mesh), so
//   the lanes of a wave add to the same elements at once: 32 atomic additions where a few would do. That is only known when the
//   kernel runs. So the lanes that are here compare their elements, and if they are the same, the amounts are summed in
//   shared memory by a few of the lanes, which add the sums. If they are not, each lane adds its own amounts.
//
//   To compare costs about as much as to sum. So what straight-line code adds (the ten numbers of one Gaussian) is kept in registers
//   until its end, and is compared and summed together: TSL_MEET_BEGIN and TSL_MEET_END stand around such code
//   (compiler/emit/addition_runs.h). Every addition in it takes a place, whether it has something to add or not:
//   how many there are must be the same for all lanes, and known to the compiler, or the places are no registers.
//
//   Lanes of one wave may be in several places of the program, and each such set of lanes sums for itself, perhaps at the same
//   time. Each lane therefore writes to columns of its own.
#pragma once

#include "prelude/gradients.h"

#if !defined(TSL_MEETS) || !TSL_CUDA
#undef TSL_MEETS
#define TSL_MEETS 0
#endif

#if TSL_MEETS

#define TSL_MEET_BEGIN meeting.begin()
#define TSL_MEET_END meeting.end()

namespace tsl {

constexpr int product_of(uint x, uint y, uint z) { return int(x * y * z); }
constexpr int kMostMeeting = 12;  // numbers at once
constexpr int kMostSummers = 4;  // tasks that the sum of one number is split into
constexpr int kFewLanes = 4;  // fewer add by themselves
constexpr int kMeetingWaves = (product_of(TSL_BLOCK) + 31) / 32;

// What a lane shows the others: the addresses that it adds to, or its amounts.
union Shown {
  uint4 pieces[5];  // so that lanes which write theirs, or read others', seldom want the same bank
  float amounts[kMostMeeting];
  double doubles[8];
  TSL_INLINE float* numbers(float) { return amounts; }
  TSL_INLINE double* numbers(double) { return doubles; }
};

// By lane of this wave.
TSL_INLINE Shown* shown_by_lanes() {
  __shared__ Shown shown[kMeetingWaves][32];
  return shown[((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / 32];
}

// Addresses as words. They have 49 bits and are even; the upper parts of two share a word.
struct AddressWords {
  uint low[kMostMeeting] = {}, high[kMostMeeting - 4] = {};

  TSL_INLINE void set(int i, ulonglong address) {
    low[i] = uint(address >> 1);
    high[i / 2] |= uint(address >> 33) << (i % 2 * 16);
  }
  // f(number of the piece, piece) for each piece of the words that `count` addresses have.
  template <class F> TSL_INLINE void each_piece(int count, F f) const {
#pragma unroll
    for (int p = 0; p < 3; ++p) {
      if (4 * p < count) f(p, uint4{low[4 * p], low[4 * p + 1], low[4 * p + 2], low[4 * p + 3]});
    }
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      if (8 * p < count) f(3 + p, uint4{high[4 * p], high[4 * p + 1], high[4 * p + 2], high[4 * p + 3]});
    }
  }
};

// Whether all these lanes have the same addresses.
template <int kCount, class M>
TSL_INLINE bool have_same(WarpMask lanes, uint lane, Shown* shown, M* const (&at)[kCount], int count) {
  AddressWords mine;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < count) mine.set(i, reinterpret_cast<ulonglong>(at[i]));
  }
  const uint first = uint(__ffs(int(lanes)) - 1);
  if (lane == first) mine.each_piece(count, [&](int p, uint4 piece) TSL_INLINE_LAMBDA { shown[first].pieces[p] = piece; });
  __syncwarp(lanes);
  bool same = true;
  mine.each_piece(count, [&](int p, uint4 piece) TSL_INLINE_LAMBDA {
    const uint4 other = shown[first].pieces[p];
    same = same & (other.x == piece.x) & (other.y == piece.y) & (other.z == piece.z) & (other.w == piece.w);
  });
  return __all_sync(lanes, same);
}

// Each number's sum is split into tasks, which the lanes share out: a task sums the amounts of some of them.
template <int kCount, class M, class S>
TSL_INLINE void sum_together(WarpMask lanes, uint lane, Shown* shown, M* const (&at)[kCount], const S (&amounts)[kCount], int count) {
  static_assert(kCount * sizeof(S) <= sizeof(Shown), "the amounts fit in what a lane shows");
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < count) shown[lane].numbers(S())[i] = amounts[i];
  }
  __syncwarp(lanes);
  const uint numbers = uint(count), parts = numbers * kMostSummers <= 32 ? kMostSummers : 32 / numbers;
  const uint rank = uint(__popc(lanes & ((1u << lane) - 1u))), here = uint(__popc(lanes));
  for (uint task = rank; task < numbers * parts; task += here) {
    const uint number = task % numbers, part = task / numbers, there = lanes >> part;
    S sum = S(0);
#pragma unroll
    for (uint i = 0; i < 32; ++i) {
      if (i % parts == 0 && (there >> i & 1u)) sum += shown[part + i].numbers(S())[number];
    }
    M* place = nullptr;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count && number == uint(i)) place = at[i];
    }
    if (place) atomicAdd(place, M(sum));
  }
  __syncwarp(lanes);
}

// Adds amounts[i] to *at[i], where that is not null. All lanes that are here have the same count, which is a constant.
template <int kCount, class M>
TSL_INLINE void add_meeting(M* const (&at)[kCount], const SumOf<M> (&amounts)[kCount], int count) {
  using S = SumOf<M>;
  const WarpMask lanes = __activemask();
  const int here = __popc(lanes);
  if (here >= kFewLanes) {
    const uint lane = _getLaneId();
    Shown* shown = shown_by_lanes();
    if (have_same(lanes, lane, shown, at, count)) {
      sum_together(lanes, lane, shown, at, amounts, count);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < count && at[i]) atomicAdd(at[i], M(amounts[i]));
  }
}

// What one thread has to add: Note [meetings]. Places are chosen by comparing, so that all of them are registers however late
// the compiler learns how many are taken.
class Meeting {
 public:
  TSL_INLINE void begin() { count_ = 0; }
  TSL_INLINE void end() {
    bool any = false;  // false where all elements are the thread's own, and then nothing is left of this
#pragma unroll
    for (int i = 0; i < kMostMeeting; ++i) any = any || (i < count_ && at_[i]);
    if (any) add_meeting(at_, amounts_, count_);
  }
  TSL_INLINE void take(float* element, float amount) {
#pragma unroll
    for (int i = 0; i < kMostMeeting; ++i) {
      if (i != count_) continue;
      at_[i] = element;
      amounts_[i] = amount;
    }
    ++count_;
  }

 private:
  float* at_[kMostMeeting];
  float amounts_[kMostMeeting];
  int count_ = 0;
};

}  // namespace tsl

#else
#define TSL_MEET_BEGIN
#define TSL_MEET_END
#endif
