#include "compiler/ir/computed_beginnings.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>

BOOST_AUTO_TEST_SUITE(computed_beginnings_test)

using namespace torch_slang;

namespace {

constexpr int32_t kInt = 6, kBlock = 145, kConstant = 147, kCall = 205, kParameter = 218, kLoop = 283, kAdd = 302,
                  kComplement = 323;

// A module of int (1), a constant (2) and a function (3) with two blocks (4, 7): a call (5), a loop (6) over the second one, which
// has a counter (8) and its step (9). The loop begins with `begin`.
std::vector<Instruction> loop_from(int64_t begin) {
  return {{10, 3, 0, {-1}, ""},
          {kInt, 0, 0, {-1}, ""},
          {kConstant, 0, 0, {1}, ""},
          {12, 2, 0, {-1}, ""},
          {kBlock, 2, 0, {-1}, ""},
          {kCall, 0, 0, {1}, ""},
          {kLoop, 0, 0, {-1, 7, 7, 7, begin}, ""},
          {kBlock, 2, 0, {-1}, ""},
          {kParameter, 0, 0, {1}, ""},
          {kAdd, 0, 0, {1, 8, 2}, ""}};
}

std::ptrdiff_t complements(int64_t begin) {
  ModuleEdits edits(loop_from(begin));
  hide_steps_of_computed_beginnings(edits);
  const std::vector<Instruction> made = edits.applied();
  return std::count_if(made.begin(), made.end(), [](const Instruction& one) { return one.opcode == kComplement; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_counters_that_begin_with_a_call_are_hidden) { BOOST_TEST(complements(5) == 2); }

BOOST_AUTO_TEST_CASE(steps_of_counters_that_begin_with_a_constant_stay) { BOOST_TEST(complements(2) == 0); }

BOOST_AUTO_TEST_SUITE_END()
