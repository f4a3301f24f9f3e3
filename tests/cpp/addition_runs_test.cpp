// Where runs of additions begin and end, in text of the shape that Slang emits.
#include "compiler/emit/addition_runs.h"

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(addition_runs_test)

using namespace torch_slang;

namespace {

const std::string kAdd =
    "__device__ void add_0(int i_0, float d_0) { tsl_accumulate<float>((v_0), (i_0), (d_0), (int(0))); return; } ";
const std::string kAdd3 =
    "__device__ void add3_0(float3 d_0) { tsl_accumulate<float3 >((v_0), (i_0), (d_0), (int(0))); return; } ";
const std::string kDouble =
    "__device__ void addd_0(double d_0) { tsl_accumulate<double>((v_0), (i_0), (d_0), (int(0))); return; } ";

std::string in_function(const std::string& body) { return "__device__ void f_0() { " + body + " }"; }

// What write_addition_runs makes of a text. Whether additions lie in no run is another test's matter.
std::string edited(const std::string& text) {
  EmittedCode code(text);
  write_addition_runs(code);
  std::string result = code.edited();
  constexpr std::string_view kBeside = "_BESIDE";
  for (size_t at; (at = result.find(kBeside)) != std::string::npos;) result.erase(at, kBeside.size());
  return result;
}

// What becomes of the function's body behind those that add.
std::string marked(const std::string& body, const std::string& before = kAdd) {
  const std::string text = edited(before + in_function(body));
  BOOST_REQUIRE(text.starts_with(before + "__device__ void f_0() { "));
  return text.substr(before.size() + std::string("__device__ void f_0() { ").size(),
                     text.size() - before.size() - in_function("").size());
}

// One addition, add_0(number, x_0), as a run.
std::string one(int number) {
  return "TSL_SUMS_BEGIN(1, 1); add_0(" + std::to_string(number) + ", x_0); TSL_SUMS_END(1, 1);";
}

void stays(const std::string& body, const std::string& before = kAdd) { BOOST_TEST(marked(body, before) == body); }

}  // namespace

BOOST_AUTO_TEST_CASE(straight_line_code_is_one_run) {
  BOOST_TEST(marked("float x_0 = 1; add_0(1, x_0); x_0 = 2; add3_0(x_0); return;", kAdd + kAdd3) ==
             "float x_0 = 1; TSL_SUMS_BEGIN(4, 3); add_0(1, x_0); x_0 = 2; add3_0(x_0); TSL_SUMS_END(4, 3); return;");
}

BOOST_AUTO_TEST_CASE(one_addition_is_a_run) { BOOST_TEST(marked("add_0(1, x_0); return;") == one(1) + " return;"); }

BOOST_AUTO_TEST_CASE(what_is_no_float_needs_no_run_and_does_no_harm_in_one) {
  stays("addd_0(x_0); addd_0(x_0);", kDouble);
  stays("addd_0(x_0); addd_0(x_0) ? 1 : 2;", kDouble);
  BOOST_TEST(marked("addd_0(x_0); add_0(1, x_0); add_0(2, x_0);", kAdd + kDouble) ==
             "TSL_SUMS_BEGIN(2, 3); addd_0(x_0); add_0(1, x_0); add_0(2, x_0); TSL_SUMS_END(2, 3);");
}

BOOST_AUTO_TEST_CASE(branches_and_loops_end_a_run_and_have_their_own) {
  const std::string two = "add_0(1, x_0); add_0(2, x_0);";
  const std::string run = "TSL_SUMS_BEGIN(2, 3); add_0(1, x_0); add_0(2, x_0); TSL_SUMS_END(2, 3);";
  BOOST_TEST(marked(two + " if(b_0) { " + two + " } " + two) == run + " if(b_0) { " + run + " } " + run);
  BOOST_TEST(marked("for(;;) { " + two + " if(b_0) break; " + two + " }") ==
             "for(;;) { " + run + " if(b_0) break; " + run + " }");
  BOOST_TEST(marked("add_0(1, x_0); if(b_0) { add_0(2, x_0); } add_0(3, x_0);") ==
             one(1) + " if(b_0) { " + one(2) + " } " + one(3));
}

BOOST_AUTO_TEST_CASE(nothing_that_may_be_left_before_its_end_is_a_run) {
  BOOST_TEST(marked("add_0(1, x_0); return; add_0(2, x_0);") == one(1) + " return; " + one(2));
  for (const std::string jump : {" break; ", " continue; "}) {
    BOOST_TEST(marked("for(;;) { add_0(1, x_0);" + jump + "add_0(2, x_0); }") ==
               "for(;;) { " + one(1) + jump + one(2) + " }");
  }
}

BOOST_AUTO_TEST_CASE(what_may_add_or_not_is_no_part_of_a_run) {
  for (const std::string other : {" b_0 ? add_0(2, x_0) : add_0(3, x_0);", " bool c_0 = b_0 && g_0(add_0(2, x_0));",
                                  " bool c_0 = b_0 || g_0(add_0(2, x_0));"})
    BOOST_TEST(marked("add_0(1, x_0);" + other) == one(1) + other);
  BOOST_TEST(marked("switch(k_0) { case int(0): add_0(1, x_0); case int(1): add_0(2, x_0); }") ==
             "switch(k_0) { case int(0): " + one(1) + " case int(1): " + one(2) + " }");
}

BOOST_AUTO_TEST_CASE(a_run_of_several_functions_lies_in_the_outermost) {
  const std::string read = "__device__ void read_0(float2 d_0) { add_0(1, d_0.x); add_0(2, d_0.y); return; } ";
  BOOST_TEST(marked("read_0(x_0); read_0(y_0);", kAdd + read) ==
             "TSL_SUMS_BEGIN(4, 15); read_0(x_0); read_0(y_0); TSL_SUMS_END(4, 15);");
}

BOOST_AUTO_TEST_CASE(functions_that_may_leave_early_have_their_own) {
  const std::string before =
      kAdd + "__device__ void read_0(float2 d_0) { if(b_0) { return; } add_0(1, d_0.x); add_0(2, d_0.y); return; } ";
  BOOST_TEST(edited(before + in_function("add_0(3, x_0); read_0(x_0); add_0(4, x_0);")) ==
             kAdd +
                 "__device__ void read_0(float2 d_0) { if(b_0) { return; } TSL_SUMS_BEGIN(2, 3); add_0(1, d_0.x); "
                 "add_0(2, d_0.y); TSL_SUMS_END(2, 3); return; } " +
                 in_function(one(3) + " read_0(x_0); " + one(4)));
}

BOOST_AUTO_TEST_CASE(long_runs_are_several) {
  std::string body, expected;
  for (int run = 0; run < 2; ++run) {
    expected += "TSL_SUMS_BEGIN(12, 585); ";
    for (int i = 0; i < 4; ++i) {
      body += "add3_0(x_0); ";
      expected += i < 3 ? "add3_0(x_0); " : "add3_0(x_0); TSL_SUMS_END(12, 585); ";
    }
  }
  BOOST_TEST(marked(body + "add3_0(x_0);", kAdd3) ==
             expected + "TSL_SUMS_BEGIN(3, 1); add3_0(x_0); TSL_SUMS_END(3, 1);");
}

BOOST_AUTO_TEST_CASE(structs_of_floats_are_elements_and_recorded_additions_are_none) {
  const auto add = [](const std::string& type, const std::string& mode = "(int(0))") {
    return "tsl_accumulate<" + type + ">((v_0), (i_0), (x_0), TSL_MODE(" + mode + "));";
  };
  const std::string structs =
      "struct Pair_0 { float a_0; float b_0; }; struct Five_0 { float3  c_0; Pair_0 d_0; }; "
      "struct Mixed_0 { float a_0; int b_0; }; struct Wide_0 { float4  a_0; float4  b_0; float4  c_0; float d_0; }; ";
  const auto marked_in = [&](const std::string& body) {
    const std::string text = edited(structs + in_function(body));
    return text.substr((structs + "__device__ void f_0() { ").size());
  };
  BOOST_TEST(marked_in(add("Five_0") + " " + add("float")) ==
             "TSL_SUMS_BEGIN(6, 33); " + add("Five_0") + " " + add("float") + " TSL_SUMS_END(6, 33); }");
  for (const std::string& other : {add("Mixed_0"), add("Wide_0"), add("float", "(int(2))"), add("float", "(n_0)")}) {
    BOOST_TEST(marked_in(other + " " + add("Pair_0")) ==
               "TSL_SUMS_BEGIN(2, 1); " + other + " " + add("Pair_0") + " TSL_SUMS_END(2, 1); }");
    BOOST_TEST(marked_in(other) == other + " }");
  }
  const std::string replicated = add("float", "(int(-1))");
  BOOST_TEST(marked_in(replicated + " " + replicated) ==
             "TSL_SUMS_BEGIN(2, 3); " + replicated + " " + replicated + " TSL_SUMS_END(2, 3); }");
}

BOOST_AUTO_TEST_CASE(a_run_that_an_iteration_may_pass_is_summed_where_the_iteration_ends) {
  const std::string two = "add_0(1, x_0); add_0(2, x_0);", run = "TSL_SUMS_BEGIN(2, 3); " + two;
  const std::string wait = run + " TSL_SUMS_WAIT();", join = " } TSL_SUMS_JOIN(tsl_sums_0, 2, 3); }";
  BOOST_TEST(marked("for(;;) { if(b_0) { i_0 = 1; continue; } " + two + " i_0 = 2; }") ==
             "for(;;) { { if(b_0) { i_0 = 1; TSL_SUMS_NEXT(tsl_sums_0); } " + wait + " i_0 = 2;" + join);
  BOOST_TEST(marked("for(;;) { if(b_0) { " + two + " } }") == "for(;;) { { if(b_0) { " + wait + " }" + join);
  BOOST_TEST(marked("for(;;) { if(b_0) break; if(c_0) { " + two + " continue; } i_0 = 2; }") ==
             "for(;;) { { if(b_0) break; if(c_0) { " + wait + " TSL_SUMS_NEXT(tsl_sums_0); } i_0 = 2;" + join);
  // One addition, too.
  BOOST_TEST(marked("for(;;) { if(b_0) { add_0(1, x_0); } }") ==
             "for(;;) { { if(b_0) { TSL_SUMS_BEGIN(1, 1); add_0(1, x_0); TSL_SUMS_WAIT(); } } "
             "TSL_SUMS_JOIN(tsl_sums_0, 1, 1); }");
  // Beside another it is added at once.
  BOOST_TEST(marked("for(;;) { if(b_0) { " + two + " } if(c_0) { add_0(3, x_0); } }") ==
             "for(;;) { { if(b_0) { " + wait + " } if(c_0) { add_0(3, x_0); }" + join);
  // Of two loops the inner one, whose `continue` alone is meant.
  BOOST_TEST(marked("for(;;) { if(c_0) continue; for(;;) { if(b_0) continue; " + two + " } }") ==
             "for(;;) { if(c_0) continue; for(;;) { { if(b_0) TSL_SUMS_NEXT(tsl_sums_0); " + wait + join + " }");
}

BOOST_AUTO_TEST_CASE(a_run_waits_for_nobody_where_none_passes_it_or_the_loop_may_be_left_behind_it) {
  const std::string two = "add_0(1, x_0); add_0(2, x_0);";
  const std::string run = "TSL_SUMS_BEGIN(2, 3); " + two + " TSL_SUMS_END(2, 3);";
  const auto is_summed_at_once = [&](const std::string& before, const std::string& behind) {
    BOOST_TEST(marked(before + two + behind) == before + run + behind);
  };
  is_summed_at_once("for(;;) { ", " }");
  is_summed_at_once("for(;;) { if(b_0) break; ", " }");
  is_summed_at_once("for(;;) { ", " if(b_0) continue; i_0 = 1; }");
  is_summed_at_once("for(;;) { if(b_0) { ", " break; } }");
  is_summed_at_once("for(;;) { if(b_0) continue; ", " if(c_0) return; }");
  is_summed_at_once("if(b_0) { ", " }");
  is_summed_at_once("for(;;) { if(b_0) continue; for(;;) { ", " } }");
  // What waits would be lost in a function that has runs of its own, but for those called before.
  const std::string early = "__device__ void early_0() { if(b_0) { return; } add_0(3, x_0); } ";
  const std::string early_marked = "__device__ void early_0() { if(b_0) { return; } " + one(3) + " } ";
  BOOST_TEST(edited(kAdd + early + in_function("for(;;) { if(b_0) { " + two + " } early_0(); }")) ==
             kAdd + early_marked + in_function("for(;;) { if(b_0) { " + run + " } early_0(); }"));
  BOOST_TEST(edited(kAdd + early + in_function("for(;;) { early_0(); if(b_0) { " + two + " } }")) ==
             kAdd + early_marked +
                 in_function("for(;;) { { early_0(); if(b_0) { TSL_SUMS_BEGIN(2, 3); " + two +
                             " TSL_SUMS_WAIT(); } } TSL_SUMS_JOIN(tsl_sums_1, 2, 3); }"));
  // What waits in an outer loop would be lost in an inner one that has a run.
  const std::string inner = "for(;;) { if(c_0) { add_0(3, x_0); } }";
  BOOST_TEST(marked("for(;;) { if(b_0) { " + two + " } " + inner + " }") ==
             "for(;;) { if(b_0) { " + run +
                 " } for(;;) { { if(c_0) { TSL_SUMS_BEGIN(1, 1); add_0(3, x_0); TSL_SUMS_WAIT(); } } "
                 "TSL_SUMS_JOIN(tsl_sums_1, 1, 1); } }");
  const std::string both = "for(;;) { if(b_0) { " + run + " } else { " + run + " } }";
  BOOST_TEST(marked("for(;;) { if(b_0) { " + two + " } else { " + two + " } }") == both);
}

namespace {

const std::string kOnly = "tsl_add_only((v_0).data_ptr_at<float>((i_0)), (x_0));";

}  // namespace

BOOST_AUTO_TEST_CASE(additions_of_the_users_own_lie_in_runs_that_memory_ends) {
  const auto run = [](const std::string& inner) {
    return "TSL_SUMS_BEGIN(2, 3); " + inner + " TSL_SUMS_END_SEEN(2, 3);";
  };
  const std::string two = kOnly + " " + kOnly;
  BOOST_TEST(marked(two + " return;", "") == run(two) + " return;");
  for (const std::string other : {"float y_0 = (w_0).load<float>((i_0));", "(w_0).store<float>((i_0), (x_0));",
                                  "__threadfence();", "float y_0 = atomicAdd((w_0).data_ptr_at<float>((i_0)), (x_0));"})
    BOOST_TEST(marked(two + " " + other + " " + two, "") == run(two) + " " + other + " " + run(two));
  BOOST_TEST(marked(kOnly + " float y_0 = x_0 * 2; " + kOnly, "") == run(kOnly + " float y_0 = x_0 * 2; " + kOnly));
  // What an addition itself loads is loaded before it, but after those in front.
  const std::string loads = "tsl_add_only((v_0).data_ptr_at<float>((i_0)), ((w_0).load<float>((i_0))));";
  BOOST_TEST(marked(loads + " " + kOnly, "") == run(loads + " " + kOnly));
  stays(kOnly + " " + loads, "");
}

BOOST_AUTO_TEST_CASE(additions_of_the_users_own_wait_for_nobody) {
  BOOST_TEST(marked("for(;;) { if(b_0) continue; " + kOnly + " " + kOnly + " }", "") ==
             "for(;;) { if(b_0) continue; TSL_SUMS_BEGIN(2, 3); " + kOnly + " " + kOnly +
                 " TSL_SUMS_END_SEEN(2, 3); }");
}

BOOST_AUTO_TEST_CASE(where_addresses_are_known_each_addition_of_the_users_own_stands_alone) {
  const std::string two = kOnly + " " + kOnly;
  stays("float* p_0 = (v_0).data_ptr<float>(); " + kOnly + " float y_0 = *p_0; " + kOnly, "");
  stays(two + " float* p_0 = (v_0).data_ptr<float>();", "");
  BOOST_TEST(
      marked("float* p_0 = (v_0).data_ptr<float>(); add_0(1, x_0); add_0(2, x_0);") ==
      "float* p_0 = (v_0).data_ptr<float>(); TSL_SUMS_BEGIN(2, 3); add_0(1, x_0); add_0(2, x_0); TSL_SUMS_END(2, 3);");
}

BOOST_AUTO_TEST_CASE(functions_that_read_behind_an_addition_have_runs_of_their_own) {
  const std::string reads = "__device__ float r_0() { " + kOnly + " return (v_0).load<float>((i_0)); } ";
  const std::string adds = "__device__ void a_0() { " + kOnly + " return; } ";
  const std::string before = reads + adds;
  BOOST_TEST(edited(before + in_function("r_0(); r_0(); a_0(); a_0();")) ==
             before + in_function("r_0(); r_0(); TSL_SUMS_BEGIN(2, 3); a_0(); a_0(); TSL_SUMS_END_SEEN(2, 3);"));
}

BOOST_AUTO_TEST_CASE(runs_begin_otherwise_beside_additions_that_lie_in_none) {
  const auto is_beside = [](const std::string& text) {
    EmittedCode code(text);
    write_addition_runs(code);
    return code.edited().find("TSL_SUMS_BEGIN_BESIDE(") != std::string::npos;
  };
  const std::string two = "add_0(1, x_0); add_0(2, x_0);";
  BOOST_TEST(!is_beside(kAdd + in_function(two)));
  BOOST_TEST(!is_beside(kAdd + in_function(two + " if(b_0) { " + two + " }")));
  BOOST_TEST(!is_beside(kAdd + in_function(two + " if(b_0) { add_0(3, x_0); }")));
  BOOST_TEST(is_beside(kAdd + in_function(two + " if(b_0) add_0(3, x_0);")));
  BOOST_TEST(is_beside(kAdd + in_function("for(;;) { if(b_0) { " + two + " } if(c_0) { add_0(3, x_0); } }")));
  BOOST_TEST(is_beside(kAdd + in_function("for(; add_0(0, x_0);) { " + two + " }")));
  BOOST_TEST(is_beside(kAdd + kDouble + in_function(two + " addd_0(x_0);")));
  // A kernel that may return early lies in its wrapper, and has the run.
  const std::string kernel = "__device__ void k_0() { if(b_0) { return; } " + two + " } ";
  BOOST_TEST(!is_beside(kAdd + kernel + in_function("k_0(); return;")));
  BOOST_TEST(is_beside(kAdd + kernel + in_function("k_0(); b_0 ? add_0(3, x_0) : f_0(); return;")));
}

BOOST_AUTO_TEST_SUITE_END()
