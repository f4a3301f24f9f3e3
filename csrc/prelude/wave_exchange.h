// Sums of several numbers over the lanes of a wave that are here, whichever these are, or over runs of them. Nothing but arithmetic and an exchange of
// values between lanes, so that tests run it on a host (tests/cpp/wave_exchange_test.cpp).
//
// Note [wave exchange]
//   Lanes are numbered by rank: how many of those that are here stand below them. Of n lanes the first P sum, P being the
//   largest power of two that is not above n; those above give all that they have to the lane P ranks below.
//   In step s two lanes whose ranks differ in bit s share out their numbers: each gives the other one half, and keeps the
//   other half. So ten numbers of 32 lanes take 5 + 3 + 2 + 1 + 1 exchanges, not 50, and their sums end in ten lanes,
//   which add them at the same time. A lane whose half is empty has nothing more to add.
#pragma once

#include "prelude/target.h"

#if TSL_CUDA
#define TSL_UNROLL _Pragma("unroll")
#define TSL_LOOP _Pragma("unroll 1")
#else
#define TSL_UNROLL
#define TSL_LOOP
#endif

namespace tsl {

#if TSL_CUDA
TSL_INLINE uint count_of_bits(uint bits) { return uint(__popc(bits)); }
TSL_INLINE uint lowest_bit(uint bits) { return uint(__ffs(int(bits)) - 1); }
TSL_INLINE uint highest_bit(uint bits) { return 31u - uint(__clz(int(bits))); }
#else
TSL_INLINE uint count_of_bits(uint bits) { return uint(__builtin_popcount(bits)); }
TSL_INLINE uint lowest_bit(uint bits) { return uint(__builtin_ctz(bits)); }
TSL_INLINE uint highest_bit(uint bits) { return 31u - uint(__builtin_clz(bits)); }
#endif

// yes or no. Of several choices by one condition NVRTC would make a branch, whose two sides exchange one after the other.
#if TSL_CUDA
#define TSL_SELECT(T, type, constraint)                                                                             \
  TSL_INLINE T select(uint condition, T yes, T no) {                                                                \
    T chosen;                                                                                                       \
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; selp." type " %0, %1, %2, p; }"                                      \
        : "=" constraint(chosen) : constraint(yes), constraint(no), "r"(condition));                              \
    return chosen;                                                                                                  \
  }
TSL_SELECT(float, "f32", "f")
TSL_SELECT(double, "f64", "d")
TSL_SELECT(uint, "b32", "r")
TSL_SELECT(ulonglong, "b64", "l")
#undef TSL_SELECT
template <class T> TSL_INLINE T* select(uint condition, T* yes, T* no) {
  return reinterpret_cast<T*>(select(condition, reinterpret_cast<ulonglong>(yes), reinterpret_cast<ulonglong>(no)));
}
#else
template <class T> TSL_INLINE T select(uint condition, T yes, T no) { return condition != 0 ? yes : no; }
#endif

// Lanes: `mask` says who is here, `lane` is the own number, from(value, lane) gives another's value. All of them come here
// together; two at least. Where kIsWhole, all 32 are here, and across(value, bit) gives the value of the lane whose number
// differs in that bit.
template <class Lanes>
class WaveExchange {
  static constexpr int kSteps = 5;
  static constexpr bool kIsWhole = Lanes::kIsWhole;

 public:
  TSL_INLINE explicit WaveExchange(const Lanes& lanes) : lanes_(lanes) {
    if constexpr (kIsWhole) {
      count_ = summing_ = 32;
      rank_ = lanes.lane;
      return;
    }
    count_ = count_of_bits(lanes.mask);
    rank_ = count_of_bits(lanes.mask & ((1u << lanes.lane) - 1u));
    summing_ = 1u << highest_bit(count_);
    const uint above = lanes.mask & ~((2u << lanes.lane) - 1u), below = lanes.mask & ((1u << lanes.lane) - 1u);
    // The lanes 2^s ranks above and below; the last or first one where there is none.
    uint up = above ? lowest_bit(above) : lanes.lane, down = below ? highest_bit(below) : lanes.lane;
    TSL_UNROLL for (int s = 0; s < kSteps; ++s) {
      partners_[s] = (rank_ >> s & 1u) ? down : up;
      if (summing_ == 1u << s) above_summing_ = up;
      if (s + 1 == kSteps) break;
      up = lanes.from(up, up);
      down = lanes.from(down, down);
    }
  }

  // add(places[i], the sum of numbers[i] over the lanes), once for each i whose place is not zero, by some lane. A place may
  // differ from lane to lane if any of them will do, but where it is zero it is so in all.
  template <int kCount, class S, class Place, class Add>
  TSL_INLINE void sum(S (&numbers)[kCount], Place (&places)[kCount], Add add) const {
    if (count_ != summing_) {
      TSL_UNROLL for (int i = 0; i < kCount; ++i) {
        const S other = lanes_.from(numbers[i], above_summing_);
        if (rank_ + summing_ < count_) numbers[i] += other;
      }
    }
    share_out<0, kCount>(numbers, places, add);
  }

 private:
  // Of the numbers, each lane has the first kLeft still to do.
  template <int kStep, int kLeft, int kCount, class S, class Place, class Add>
  TSL_INLINE void share_out(S (&numbers)[kCount], Place (&places)[kCount], Add add) const {
    if (kStep == kSteps || (!kIsWhole && summing_ == 1u << kStep)) {
      TSL_UNROLL for (int i = 0; i < kLeft; ++i) {
        if (places[i] != Place(0) && (kIsWhole || rank_ < summing_)) add(places[i], numbers[i]);
      }
      return;
    }
    if constexpr (kStep < kSteps) {
      constexpr int kHalf = (kLeft + 1) / 2;
      const uint keeps_second = rank_ & 1u << kStep;
      if constexpr (kLeft == 1) {
        numbers[0] += from_partner<kStep>(numbers[0]);  // both have the sum
        places[0] = select(keeps_second, Place(0), places[0]);
        return share_out<kStep + 1, 1>(numbers, places, add);
      }
      TSL_UNROLL for (int i = 0; i < kHalf; ++i) {
        const bool has_second = kHalf + i < kLeft;
        const int second = has_second ? kHalf + i : 0;
        const S left = numbers[i], right = has_second ? numbers[second] : S(0);
        numbers[i] = select(keeps_second, right, left) + from_partner<kStep>(select(keeps_second, left, right));
        places[i] = select(keeps_second, has_second ? places[second] : Place(0), places[i]);
      }
      share_out<kStep + 1, kHalf>(numbers, places, add);
    }
  }

  template <int kStep, class S> TSL_INLINE S from_partner(S value) const {
    if constexpr (kIsWhole) return lanes_.across(value, 1u << kStep);
    else return lanes_.from(value, partners_[kStep]);
  }

  const Lanes& lanes_;
  uint count_, rank_, summing_;
  uint partners_[kSteps];  // by step
  uint above_summing_ = 0;
};

// Note [wave runs]
//   A run is lanes beside each other that have one element; where a lane is not here, a run ends. In step s a lane takes the
//   sum of the lane 2^s above it, if that one is of its run, so that in the end the first lane of each run has the sum of all of
//   it. There are as many steps as the longest run needs: all lanes know where each one begins.
template <class Lanes>
class WaveRuns {
 public:
  // `goes_on`: whether the lane below is here, and has the same element. All lanes that are here come together.
  TSL_INLINE WaveRuns(const Lanes& lanes, bool goes_on) : lanes_(lanes), going_on_(lanes.those_with(goes_on)) {}

  // Whether at least a quarter of the lanes is saved an addition: fewer are not worth the exchanges.
  TSL_INLINE bool are_worth_it() const { return 4 * count_of_bits(going_on_) >= count_of_bits(lanes_.mask); }

  template <int kCount, class S> TSL_INLINE void sum(S (&numbers)[kCount]) const {
    uint takers = going_on_ >> 1;  // of this step
    TSL_LOOP for (uint distance = 1; takers != 0; distance *= 2) {
      const bool takes = takers >> lanes_.lane & 1u;
      TSL_UNROLL for (int i = 0; i < kCount; ++i) {
        const S other = lanes_.from(numbers[i], takes ? lanes_.lane + distance : lanes_.lane);
        if (takes) numbers[i] += other;
      }
      takers &= takers >> distance;
    }
  }

 private:
  const Lanes& lanes_;
  const uint going_on_;
};

}  // namespace tsl
