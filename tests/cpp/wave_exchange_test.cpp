// The sums of prelude/wave_exchange.h on the host: each lane of a wave is a thread, and an exchange is a meeting of those that are
// here. Boost.Test takes no threads: lanes note what they see, and the main thread checks it.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "prelude/wave_exchange.h"

BOOST_AUTO_TEST_SUITE(wave_exchange_test)

namespace {

// What the lanes of a mask share.
struct Wave {
  explicit Wave(uint32_t mask) : mask(mask), meeting(__builtin_popcount(mask)) {}
  const uint32_t mask;
  std::barrier<> meeting;
  std::atomic<bool> asked_absent{false};  // a lane that is not here, whose value is anything
  std::array<std::array<unsigned char, 8>, 32> shown = {};
};

struct SimulatedLanes {
  static constexpr bool kIsWhole = false;
  uint32_t mask, lane;
  Wave* wave;

  template <class T>
  T from(T value, uint32_t other) const {
    std::memcpy(wave->shown[lane].data(), &value, sizeof value);
    wave->meeting.arrive_and_wait();
    if (other > 31 || (mask >> other & 1) == 0) wave->asked_absent = true;
    T taken;
    std::memcpy(&taken, wave->shown[other % 32].data(), sizeof taken);
    wave->meeting.arrive_and_wait();
    return taken;
  }
  uint32_t those_with(bool property) const {
    wave->shown[lane][0] = property;
    wave->meeting.arrive_and_wait();
    uint32_t all = 0;
    for (uint32_t other = 0; other < 32; ++other) {
      const bool is_here = (mask >> other & 1) != 0;
      all |= static_cast<uint32_t>(is_here && wave->shown[other][0] != 0) << other;
    }
    wave->meeting.arrive_and_wait();
    return all;
  }
};

struct SimulatedSome : SimulatedLanes {};
struct SimulatedWhole : SimulatedLanes {
  static constexpr bool kIsWhole = true;
  template <class T>
  T across(T value, uint32_t bit) const {
    return from(value, lane ^ bit);
  }
};

// By number and lane, what is added where, and by whom.
template <class S, int kCount>
struct Outcome {
  std::array<S, kCount> sums = {};
  std::array<std::vector<uint32_t>, kCount> adders;
};

int amount_of(uint32_t lane, int number) { return static_cast<int>((lane + 1) * (number + 3) * (lane + number + 7)); }

template <class S, int kCount, class Lanes>
Outcome<S, kCount> summed(uint32_t mask, uint32_t wanted) {
  Wave wave(mask);
  std::array<Outcome<S, kCount>, 32> by_lane;
  std::array<char, kCount> memory = {};  // places, of which only the address is looked at
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    threads.emplace_back([&, lane] {
      const Lanes lanes{{mask, lane, &wave}};
      S numbers[kCount];
      char* places[kCount];
      for (int i = 0; i < kCount; ++i) {
        numbers[i] = static_cast<S>(amount_of(lane, i));
        places[i] = (wanted >> i & 1) != 0 ? &memory[i] : nullptr;
      }
      tsl::WaveExchange<Lanes>(lanes).sum(numbers, places, [&](char* place, S sum) {
        const auto number = static_cast<size_t>(place - memory.data());
        by_lane[lane].sums[number] += sum;
        by_lane[lane].adders[number].push_back(lane);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(!wave.asked_absent, "lanes " << mask);
  Outcome<S, kCount> all;
  for (const auto& one : by_lane) {
    for (int i = 0; i < kCount; ++i) {
      all.sums[i] += one.sums[i];
      all.adders[i].insert(all.adders[i].end(), one.adders[i].begin(), one.adders[i].end());
    }
  }
  return all;
}

template <class S, int kCount, class Lanes = SimulatedSome>
void check(uint32_t mask, uint32_t wanted = ~0u) {
  const auto found = summed<S, kCount, Lanes>(mask, wanted);
  for (int i = 0; i < kCount; ++i) {
    S expected = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) expected += (mask >> lane & 1) != 0 ? S(amount_of(lane, i)) : S(0);
    const bool is_wanted = (wanted >> i & 1) != 0;
    BOOST_TEST(found.sums[i] == (is_wanted ? expected : S(0)),
               "number " << i << " of " << kCount << ", lanes " << mask);
    BOOST_TEST(found.adders[i].size() == (is_wanted ? 1u : 0u),
               "number " << i << " of " << kCount << ", lanes " << mask);
  }
}

std::vector<uint32_t> masks() {
  std::vector<uint32_t> all = {~0u,         0x0000ffffu, 0xffff0000u, 0x80000001u, 0x00000003u,
                               0xc0000000u, 0x7fffffffu, 0xfffffffeu, 0x55555555u, 0xaaaaaaaau,
                               0x00010001u, 0x0000001fu, 0x80808080u, 0xf00f00f0u};
  for (uint32_t count = 2; count < 32; count += 3) all.push_back((1u << count) - 1);
  std::mt19937 random(5);
  while (all.size() < 32) {
    uint32_t mask = random();
    if (all.size() % 3 == 0) mask &= random();
    if (__builtin_popcount(mask) >= 2) all.push_back(mask);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whichever_lanes_are_here_each_number_is_added_once_and_whole) {
  for (const uint32_t mask : masks()) {
    check<double, 10>(mask);
    check<float, 3>(mask);
  }
}

BOOST_AUTO_TEST_CASE(any_count_of_numbers_is_summed) {
  for (const uint32_t mask : {~0u, 0x7ffu, 0x80f00001u, 0x3u}) {
    check<float, 1>(mask);
    check<float, 2>(mask);
    check<float, 4>(mask);
    check<float, 5>(mask);
    check<float, 7>(mask);
    check<float, 8>(mask);
    check<float, 12>(mask);
    check<float, 16>(mask);
  }
}

BOOST_AUTO_TEST_CASE(a_whole_wave_needs_no_ranks) {
  check<float, 1, SimulatedWhole>(~0u);
  check<double, 3, SimulatedWhole>(~0u);
  check<float, 9, SimulatedWhole>(~0u, 0b100101101);
  check<float, 12, SimulatedWhole>(~0u);
}

BOOST_AUTO_TEST_CASE(numbers_without_a_place_are_added_nowhere) {
  for (const uint32_t mask : {~0u, 0x7fffu, 0x10101010u}) {
    check<float, 10>(mask, 0b0000000001);
    check<float, 10>(mask, 0b1010010110);
    check<float, 10>(mask, 0);
  }
}

namespace {

// By lane, the sum of its run, of which only the first lane's counts.
void check_runs(uint32_t mask, uint32_t going_on) {
  Wave wave(mask);
  std::array<std::array<int, 3>, 32> found = {};
  std::array<bool, 32> worth_it = {};
  std::vector<std::thread> threads;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    threads.emplace_back([&, lane] {
      const SimulatedLanes lanes{mask, lane, &wave};
      const tsl::WaveRuns<SimulatedLanes> runs(lanes, (going_on >> lane & 1) != 0);
      worth_it[lane] = runs.are_worth_it();
      int numbers[3] = {amount_of(lane, 0), amount_of(lane, 1), amount_of(lane, 2)};
      runs.sum(numbers);
      std::copy(std::begin(numbers), std::end(numbers), found[lane].begin());
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(!wave.asked_absent, "lanes " << mask);
  const bool are_worth_it = 4 * __builtin_popcount(going_on) >= __builtin_popcount(mask);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    BOOST_TEST(worth_it[lane] == ((mask >> lane & 1) != 0 && are_worth_it), "lane " << lane << " of " << mask);
  }
  for (uint32_t first = 0; first < 32; ++first) {
    if (((mask & ~going_on) >> first & 1) == 0) continue;
    for (int i = 0; i < 3; ++i) {
      int expected = amount_of(first, i);
      for (uint32_t lane = first + 1; lane < 32 && (going_on >> lane & 1) != 0; ++lane) expected += amount_of(lane, i);
      BOOST_TEST(found[first][i] == expected, "lane " << first << " of " << mask << ", runs " << going_on);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_lane_of_each_run_has_its_sum) {
  std::mt19937 random(7);
  for (const uint32_t mask : masks()) {
    const uint32_t may = mask & mask << 1;  // the lane below is here
    for (const uint32_t going_on : {may, 0u, may & 0xfffffffeu, may & 0xaaaaaaaau, may & 0x7fff7fffu,
                                    may & uint32_t(random()), may & uint32_t(random() | random())}) {
      check_runs(mask, going_on);
    }
  }
}

namespace {

struct CountingLanes {
  static constexpr bool kIsWhole = true;
  static constexpr uint32_t mask = ~0u;
  uint32_t lane = 7;
  int* exchanges;
  template <class T>
  T across(T value, uint32_t) const {
    return ++*exchanges, value;
  }
  template <class T>
  T from(T value, uint32_t) const {
    return across(value, 0);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_of_all_lanes_are_summed_by_few_exchanges) {
  // 5 + 3 + 2 + 1 + 1.
  int exchanges = 0;
  CountingLanes lanes;
  lanes.exchanges = &exchanges;
  float numbers[10] = {};
  char* places[10] = {};
  tsl::WaveExchange<CountingLanes>(lanes).sum(numbers, places, [](char*, float) {});
  BOOST_TEST(exchanges == 12);
}

BOOST_AUTO_TEST_SUITE_END()
