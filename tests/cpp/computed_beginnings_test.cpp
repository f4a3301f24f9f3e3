#include "compiler/ir/computed_beginnings.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(computed_beginnings_test)

using namespace torch_slang;

namespace {

constexpr int32_t kInt = 6, kBlock = 145, kConstant = 147, kCall = 205, kParameter = 218, kLoop = 283, kAdd = 302,
                  kComplement = 323;

// A module of int (1), a constant (2) and a function (3) with two blocks (4, 7): a call (5), a loop (6) over the second one, which
// has a counter (8) and its step (9). The loop begins with `begin`.
InstructionTable loop_from(int64_t begin) {
  return {.instructions = {{10, 0},
                           {kInt, 0},
                           {kConstant, 0},
                           {12, 0},
                           {kBlock, 0},
                           {kCall, 0},
                           {kLoop, 4},
                           {kBlock, 0},
                           {kParameter, 0},
                           {kAdd, 2}},
          .children = {3, 0, 0, 2, 2, 0, 0, 2, 0, 0},
          .locations = std::vector<uint32_t>(10),
          .references = {-1, -1, 1, -1, -1, 1, -1, 7, 7, 7, begin, -1, 1, 1, 8, 2}};
}

size_t complements(int64_t begin) {
  InstructionEdits edits(loop_from(begin));
  hide_steps_of_computed_beginnings(edits);
  size_t count = 0;
  for (const auto& instruction : edits.applied().instructions) count += instruction.opcode == kComplement ? 1 : 0;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_counters_that_begin_with_a_call_are_hidden) { BOOST_TEST(complements(5) == 2u); }

BOOST_AUTO_TEST_CASE(steps_of_counters_that_begin_with_a_constant_stay) { BOOST_TEST(complements(2) == 0u); }

BOOST_AUTO_TEST_SUITE_END()
