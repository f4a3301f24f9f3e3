// Divisions, indices, sizes and loops of emitted text, spelled so that the prelude can guard them.
#include "compiler/emit/guarded_operations.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "compiler/emit/polled_loops.h"
#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(guarded_operations_test)

using torch_slang::guard_operations;
using torch_slang::poll_loops;
using torch_slang::rewritten;

BOOST_AUTO_TEST_CASE(divisions_keep_their_operands) {
  BOOST_TEST(rewritten(guard_operations, "int c_0 = a_0 * b_0 / (d_0 - int(1)) % e_0;") ==
             "int c_0 = a_0 * b_0 TSL_DIVIDE (d_0 - int(1)) TSL_REMAINDER e_0;");
}

BOOST_AUTO_TEST_CASE(divisions_by_literals_are_left_alone_but_not_by_zero) {
  for (const std::string text : {"a_0 / int(3)", "a_0 % 7U", "a_0 / 2.0f", "1.0f / a_0"})
    BOOST_TEST(rewritten(guard_operations, text) == text);
  BOOST_TEST(rewritten(guard_operations, "a_0 / int(0) + a_0 % 0U + a_0 / int(-1)") ==
             "a_0 TSL_DIVIDE int(0) + a_0 TSL_REMAINDER 0U + a_0 TSL_DIVIDE int(-1)");
}

BOOST_AUTO_TEST_CASE(divisions_by_what_is_declared_as_floats_are_left_alone) {
  const std::string text = "float3 v_0; double f_0(int n_0) { return x_0 / v_0.x + y_0 / f_0(n_0) / float(n_0); }";
  BOOST_TEST(rewritten(guard_operations, text) == text);
}

BOOST_AUTO_TEST_CASE(indices_are_named_and_literals_of_the_users_cpp_are_not) {
  BOOST_TEST(rewritten(guard_operations, "a_0[b_0[i_0]] = f_0()[int(2)];") ==
             "a_0[TSL_INDEX(b_0[TSL_INDEX(i_0)])] = f_0()[int(2)];");
  for (const std::string text : {"int a[4];", "a_0[2U] = b_0[int(3)].rows[int(1)];", "auto f = [&]() { return 1; };",
                                 "(&_S2)->value0_1[_pc_0] = v_0;"})
    BOOST_TEST(rewritten(guard_operations, text) == text);
}

BOOST_AUTO_TEST_CASE(rows_and_sizes_are_named) {
  BOOST_TEST(rewritten(guard_operations, "*&(((&m_0)->rows + (i_0))->y) = ((x_1).sizes[(2U)]);") ==
             "*&(((&m_0)->rows + (TSL_INDEX(i_0)))->y) = ((x_1).size_of((2U)));");
}

BOOST_AUTO_TEST_CASE(every_loop_polls_with_its_place) {
  BOOST_TEST(rewritten(poll_loops, "TSL_AT(0, 7); for(;;) { }") == "TSL_AT(0, 7); for(;TSL_POLL(0, 7);) { }");
  BOOST_TEST(rewritten(poll_loops, "__device__ void f_0() { for(;TSL_ITERATE(0, 3, i, a);) { } }") ==
             "__device__ void f_0() { for(;TSL_POLL(0, 0) && TSL_ITERATE(0, 3, i, a);) { } }");
  BOOST_TEST(rewritten(poll_loops, "while(true) { } do { } while(true);") ==
             "while(TSL_POLL(0, 0) && true) { } do { } while(TSL_POLL(0, 0) && true);");
}

BOOST_AUTO_TEST_SUITE_END()
