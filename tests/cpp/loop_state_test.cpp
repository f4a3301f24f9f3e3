// What derivatives keep of loops, in text of the shape that Slang emits.
#include "compiler/emit/loop_state.h"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "compiler/text/refused_text.h"
#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(loop_state_test)

using torch_slang::bound_loops;
using torch_slang::RefusedText;
using torch_slang::rewritten;

namespace {

const std::string kContext = "s_minCtx_f _S2; ";

std::string amended(const std::string& text) {
  const std::vector<std::string> files = {"f.slang"};
  return rewritten(bound_loops, kContext + text, files).substr(kContext.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_loop_ends_where_its_room_does) {
  BOOST_TEST(amended("int _pc_0 = int(0); TSL_AT(0, 7); for(;;) { (&_S2)->value1_0[_pc_0] = v_0; }") ==
             "int _pc_0 = int(0); TSL_AT(0, 7); for(;TSL_ITERATE(0, 7, _pc_0, (&_S2)->value1_0);) "
             "{ (&_S2)->value1_0[_pc_0] = v_0; }");
}

BOOST_AUTO_TEST_CASE(a_loop_that_keeps_nothing_has_no_end) {
  const std::string text = "int _pc_0 = int(0); for(;;) { (&_S2)->value1_0 = _pc_0; }";
  BOOST_TEST(amended(text) == text);
  BOOST_CHECK_THROW(amended(text + " for(;;) { other_0[_pc_0] = 1; }"), RefusedText);  // kept elsewhere
}

BOOST_AUTO_TEST_CASE(loops_that_share_a_counter_are_told_apart) {
  const std::string first = "int _pc_0 = int(0); for(;;) { } ";
  BOOST_TEST(
      amended(first + "_pc_0 = int(0); for(;;) { (&_S2)->value1_0[_pc_0] = v_0; }") ==
      first + "_pc_0 = int(0); for(;TSL_ITERATE(0, 0, _pc_0, (&_S2)->value1_0);) { (&_S2)->value1_0[_pc_0] = v_0; }");
}

BOOST_AUTO_TEST_CASE(indices_of_loops_inside_each_other_are_turned_around) {
  BOOST_TEST(
      amended("int _pc_0 = int(0); for(;;) { int _pc_1 = int(0); for(;;) { (&_S2)->value1_0[_pc_1][_pc_0] = v_0; } } "
              "x = (&_S3->value9_0)->value1_0[_dc_1 - int(1)][n_0[_dc_0]][k_0];") ==
      "int _pc_0 = int(0); for(;TSL_ITERATE(0, 0, _pc_0, (&_S2)->value1_0);) { int _pc_1 = int(0); "
      "for(;TSL_ITERATE(0, 0, _pc_1, (&_S2)->value1_0[0]);) { (&_S2)->value1_0[_pc_0][_pc_1] = v_0; } } "
      "x = (&_S3->value9_0)->value1_0[n_0[_dc_0]][_dc_1 - int(1)][k_0];");
}

BOOST_AUTO_TEST_CASE(indices_inside_an_index_are_turned_around_too) {
  BOOST_TEST(amended("int _pc_0 = int(0); for(;;) { int _pc_1 = int(0); for(;;) { (&_S2)->n_0[_pc_1][_pc_0] = v_0; } } "
                     "x = (&_S3)->n_0[(&_S3)->n_0[_dc_1][_dc_0]] [k_0];")
                 .ends_with("x = (&_S3)->n_0 [k_0][(&_S3)->n_0[_dc_0][_dc_1]];"));
}

BOOST_AUTO_TEST_CASE(what_is_not_understood_is_refused) {
  const std::string loops =
      "int _pc_0 = int(0); for(;;) { int _pc_1 = int(0); for(;;) { (&_S2)->value1_0[_pc_1][_pc_0] = v_0; } } ";
  BOOST_CHECK_NO_THROW(
      amended(loops + "(&_S2)->value1_0 = _S9; struct C { FixedArray<FixedArray<int, 4>, 9> value1_0; };"));
  BOOST_CHECK_THROW(amended(loops + "_S9 = (&_S2)->value1_0;"), RefusedText);
  BOOST_CHECK_THROW(amended(loops + "_S9 = (&_S2)->value1_0[_dc_1];"), RefusedText);
}

BOOST_AUTO_TEST_SUITE_END()
