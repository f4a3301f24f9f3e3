#include <boost/test/unit_test.hpp>

#include <cmath>
#include <set>

#include "specialise/virtual_threads.h"

BOOST_AUTO_TEST_SUITE(virtual_threads_test)

// Which virtual threads are likely, which lie next to them, and the search for the fastest.

using namespace torch_slang;
using Times = std::vector<double>;
using All = std::vector<VirtualThreads>;

namespace {

constexpr uint64_t kAtOnce = 1000;

ThreadFacts row_of(uint32_t blocks) {
  ThreadFacts facts;
  facts.shape.grid[0] = blocks;
  facts.shape.block[0] = 256;
  facts.bounds[0] = uint64_t{blocks} * 256;
  facts.bounds[1] = facts.bounds[2] = 1;
  facts.at_once = kAtOnce;
  facts.bytes = 4;
  return facts;
}

VirtualThreads fastest(const ThreadFacts& facts, const std::function<double(const VirtualThreads&)>& time,
                       int* tried = nullptr) {
  return fastest_threads(facts, likely_threads(facts), [&](const All& all) {
    Times times;
    for (const VirtualThreads& threads : all) times.push_back(time(threads));
    if (tried != nullptr) *tried += static_cast<int>(all.size());
    return times;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_small_launch_has_one_thread_each_and_is_not_measured) {
  const ThreadFacts facts = row_of(4);
  BOOST_TEST(likely_threads(facts).count == 1);
  BOOST_TEST(next_to(facts, likely_threads(facts)).empty());
  BOOST_TEST(!is_worth_measuring(facts));
  BOOST_TEST(is_worth_measuring(row_of(63)));  // 16,128 threads
  BOOST_TEST(!is_worth_measuring(row_of(62)));
}

BOOST_AUTO_TEST_CASE(a_device_without_virtual_threads_has_none) {
  ThreadFacts facts = row_of(1 << 20);
  facts.at_once = 0;
  BOOST_TEST((likely_threads(facts) == VirtualThreads()));
  BOOST_TEST(!is_worth_measuring(facts));
  BOOST_TEST((likely_threads(ThreadFacts()) == VirtualThreads()));
}

BOOST_AUTO_TEST_CASE(neighbours_differ_by_a_step_and_may_be_had) {
  ThreadFacts facts = row_of(10000);
  facts.lanes = 4;
  facts.bytes = 2;
  const VirtualThreads from = likely_threads(facts);
  BOOST_TEST(describe(from) == "lanes=4, groups=2, repeats=1");
  std::set<std::string> texts;
  for (const VirtualThreads& threads : next_to(facts, from)) texts.insert(describe(threads));
  BOOST_TEST((texts == std::set<std::string>{"lanes=4, groups=4, repeats=1", "lanes=4, groups=1, repeats=1",
                                             "lanes=2, groups=2, repeats=1", "lanes=2, groups=4, repeats=1"}));
  facts.shape.block[0] = 6;  // not shared out by four
  for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) BOOST_TEST(threads.lanes <= 2);
}

BOOST_AUTO_TEST_CASE(sums_of_lanes_are_tried_and_left_out_where_there_may_be_some) {
  ThreadFacts facts = row_of(10000);
  BOOST_TEST(!likely_threads(facts).adds_apart);
  for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) BOOST_TEST(!threads.adds_apart);
  facts.may_sum = true;
  const VirtualThreads from = likely_threads(facts);
  BOOST_TEST(!from.adds_apart);
  std::set<bool> tried;
  for (const VirtualThreads& threads : next_to(facts, from)) {
    tried.insert(threads.adds_apart);
    BOOST_TEST((parse_threads(facts, describe(threads)) == threads));
  }
  BOOST_TEST((tried == std::set<bool>{false, true}));
  facts.must_add_apart = true;
  BOOST_TEST(likely_threads(facts).adds_apart);
}

BOOST_AUTO_TEST_CASE(smaller_launches_are_measured_where_lanes_may_sum) {
  ThreadFacts facts = row_of(4);
  facts.may_sum = true;
  BOOST_TEST(is_worth_measuring(facts));  // 1,024 threads
  BOOST_TEST(next_to(facts, likely_threads(facts)).size() == 1);
  facts = row_of(3);
  facts.may_sum = true;
  BOOST_TEST(!is_worth_measuring(facts));
}

BOOST_AUTO_TEST_CASE(threads_that_meet_at_barriers_differ_by_sums_of_lanes_alone) {
  ThreadFacts facts = row_of(10000);
  facts.may_sum = facts.runs_one = true;
  const auto others = next_to(facts, likely_threads(facts));
  BOOST_REQUIRE(others.size() == 1);
  BOOST_TEST(others.front().adds_apart);
}

BOOST_AUTO_TEST_CASE(waves_are_tried_as_tiles_where_blocks_consist_of_some) {
  const auto tried = [](uint32_t width, uint32_t height, bool may_tile) {
    ThreadFacts facts = row_of(10000);
    facts.shape.block[0] = width;
    facts.shape.block[1] = height;
    facts.runs_one = facts.may_sum = true;
    facts.may_tile = may_tile;
    std::set<std::string> texts;
    for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) {
      texts.insert(threads.adds_apart ? "apart" : threads.tiles_waves ? "tiles" : "neither");
      BOOST_TEST((parse_threads(facts, describe(threads)) == threads));
    }
    return texts;
  };
  const std::set<std::string> apart = {"apart"}, both = {"apart", "tiles"};
  BOOST_TEST((tried(16, 16, true) == both));
  BOOST_TEST((tried(32, 4, true) == both));
  BOOST_TEST((tried(16, 16, false) == apart));
  BOOST_TEST((tried(8, 8, true) == apart));  // tiles already
  BOOST_TEST((tried(12, 4, true) == apart));
  BOOST_TEST((tried(16, 6, true) == apart));
  BOOST_TEST((tried(256, 1, true) == apart));
}

BOOST_AUTO_TEST_CASE(sums_of_lanes_may_be_forced_for_tests) {
  ThreadFacts facts = row_of(10000);
  facts.may_sum = true;
  BOOST_TEST((set_wave_sums(WaveSums::Never) == WaveSums::Measured));
  BOOST_TEST(likely_threads(facts).adds_apart);
  BOOST_TEST(!is_worth_measuring(facts));
  BOOST_TEST((set_wave_sums(WaveSums::Always) == WaveSums::Never));
  for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) BOOST_TEST(!threads.adds_apart);
  set_wave_sums(WaveSums::Measured);
}

BOOST_AUTO_TEST_CASE(those_that_share_repeat) {
  ThreadFacts facts = row_of(10000);
  facts.shape.grid[1] = facts.bounds[1] = 1000;
  facts.shared_axis = 1;
  const VirtualThreads from = likely_threads(facts);
  BOOST_TEST(from.shares);
  BOOST_TEST(from.axis == 1);
  BOOST_TEST(from.repeats == 16);
  bool has_half = false;
  for (const VirtualThreads& threads : next_to(facts, from)) {
    BOOST_TEST(threads.repeats <= 16);
    BOOST_TEST(threads.axis == 1);
    has_half |= threads.repeats == 8 && threads.count == from.count;
  }
  BOOST_TEST(has_half);
  facts.shape.grid[1] = facts.bounds[1] = 1;
  BOOST_TEST(likely_threads(facts).repeats == 1);
  for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) BOOST_TEST(threads.repeats == 1);
  for (const VirtualThreads& threads : next_to(row_of(10000), likely_threads(row_of(10000)))) {
    BOOST_TEST(threads.repeats == 1);
  }
}

BOOST_AUTO_TEST_CASE(rows_that_no_tile_fits_into_have_fewer_lanes) {
  ThreadFacts facts = row_of(1);
  facts.lanes = 4;
  facts.shape.block[0] = 32;
  facts.shape.grid[1] = facts.bounds[1] = 1000000;
  const auto lanes = [&](uint32_t columns) {
    facts.bounds[0] = columns;
    facts.shape.grid[0] = (columns + 31) / 32;
    return likely_threads(facts).lanes;
  };
  BOOST_TEST(lanes(1) == 1);
  BOOST_TEST(lanes(63) == 1);
  BOOST_TEST(lanes(64) == 2);
  BOOST_TEST(lanes(127) == 2);
  BOOST_TEST(lanes(128) == 4);
  BOOST_TEST(lanes(255) == 4);
}

BOOST_AUTO_TEST_CASE(the_search_walks_to_the_fastest) {
  ThreadFacts facts = row_of(10000);
  facts.lanes = 4;
  const auto away = [](const VirtualThreads& t, int lanes, int groups) {
    return std::abs(std::log2(t.lanes) - std::log2(lanes)) + std::abs(std::log2(t.groups()) - std::log2(groups));
  };
  for (const int lanes : {1, 2, 4}) {
    for (const int groups : {1, 2, 4}) {
      int tried = 0;
      const VirtualThreads best =
          fastest(facts, [&](const VirtualThreads& t) { return 1 + 0.1 * away(t, lanes, groups); }, &tried);
      BOOST_TEST(best.lanes == lanes);
      BOOST_TEST(best.groups() == groups);
      BOOST_TEST(tried <= 16);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_likely_stays_unless_another_is_clearly_faster) {
  const ThreadFacts facts = row_of(10000);
  const VirtualThreads likely = likely_threads(facts);
  const auto others = [&](double time) {
    return fastest(facts, [&](const VirtualThreads& threads) { return threads == likely ? 1.0 : time; });
  };
  BOOST_TEST((others(1.0) == likely));
  BOOST_TEST((others(0.99) == likely));
  BOOST_TEST(!(others(0.9) == likely));
  BOOST_TEST((others(0) == likely));  // none could be timed
  BOOST_TEST((fastest(facts, [](const VirtualThreads&) { return 0.0; }) == likely));
}

BOOST_AUTO_TEST_CASE(texts_are_read_back_and_damaged_ones_are_not) {
  ThreadFacts facts = row_of(10000);
  facts.lanes = 4;
  for (const VirtualThreads& threads : next_to(facts, likely_threads(facts))) {
    const auto again = parse_threads(facts, describe(threads));
    BOOST_REQUIRE(again.has_value());
    BOOST_TEST((*again == threads));
  }
  for (const char* text :
       {"", "lanes=4", "lanes=3, groups=1, repeats=1", "lanes=8, groups=1, repeats=1", "lanes=4, groups=8, repeats=1",
        "lanes=1, groups=0, repeats=1", "lanes=1, groups=-2, repeats=1", "lanes=1, groups=1, repeats=2",
        "lanes=1, groups=99999999999, repeats=1", "BM=64"}) {
    BOOST_TEST(!parse_threads(facts, text).has_value(), text);
  }
}

BOOST_AUTO_TEST_CASE(a_text_allows_less_than_the_launch_wants) {
  const VirtualThreads wanted{
      .count = 8, .lanes = 4, .repeats = 2, .shares = true, .adds_apart = true, .tiles_waves = true};
  const TextFacts usual{.size = 1000, .has_bounds = true};
  const auto changed = [&](auto change) {
    TextFacts text = usual;
    change(text);
    return allowed_threads(wanted, text);
  };
  VirtualThreads expected = wanted;
  expected.adds_apart = false;
  BOOST_TEST((allowed_threads(wanted, usual) == expected));

  const VirtualThreads large = changed([](TextFacts& text) { text.size = 128 << 10; });
  BOOST_TEST(large.count == 2);
  BOOST_TEST(large.lanes == 2);
  for (const auto change :
       {+[](TextFacts& text) { text.is_checked = true; }, +[](TextFacts& text) { text.has_bounds = false; }}) {
    const VirtualThreads apart = changed(change);
    BOOST_TEST(apart.count == 8);
    BOOST_TEST(apart.lanes == 1);
    BOOST_TEST(apart.repeats == 1);
    BOOST_TEST(!apart.shares);
  }
  const VirtualThreads meeting = changed([](TextFacts& text) { text.has_barriers = true; });
  BOOST_TEST(meeting.count == 1);
  BOOST_TEST(meeting.lanes == 1);
  BOOST_TEST(meeting.tiles_waves);
  BOOST_TEST(!changed([](TextFacts& text) { text.has_waves = true; }).tiles_waves);
  BOOST_TEST(changed([](TextFacts& text) { text.has_samples = true; }).is_flat);
  const VirtualThreads product = changed([](TextFacts& text) { text.multiplies = text.has_samples = true; });
  BOOST_TEST((product == VirtualThreads{}));
}

BOOST_AUTO_TEST_SUITE_END()
