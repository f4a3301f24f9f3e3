// Passes that must apply and do not; what a text's tokens say.
#include "compiler/emit/passes.h"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

#include "compile_source.h"
#include "compiler/emit/emitted_text.h"
#include "compiler/emit/host_launches.h"
#include "compiler/emit/host_structs.h"
#include "compiler/emit/left_out_definitions.h"
#include "compiler/emit/members.h"
#include "compiler/emit/pass_table.h"
#include "compiler/emit/text_facts.h"
#include "compiler/slang/library.h"
#include "compiler/text/code_names.h"
#include "compiler/text/refused_text.h"
#include "program/intrinsics.h"
#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(passes_test)

using namespace torch_slang;

namespace {

struct Passed {
  DeviceText text;
  std::vector<PassCount> counts;

  int count(std::string_view name) const {
    for (const PassCount& one : counts) {
      if (one.name == name) return one.count;
    }
    return -1;
  }
};

// `functions` in front of an entry point whose body is `statements`.
Passed passed(const std::string& statements, const std::string& functions = "") {
  Passed all;
  EmittedText emitted(
      "\n#line 1 \"a.slang\"\n" + functions + "\nextern \"C\" __global__ void go()\n{\n" + statements + "\n}\n",
      Texts::Kernel);
  all.counts = apply_passes(emitted, all.text);
  return all;
}

// A row of a table; `gives` and `needs` are facts.
constexpr Pass row(std::string_view name, unsigned needs, unsigned gives, Texts texts = Texts::Kernel) {
  return {name, texts, nullptr, kNothing, kNothing, needs, gives};
}

int replace_last(EmittedText& text) {
  text.code().replace({text.code().size() - 2, text.code().size() - 1}, "changed");
  return 1;
}

void apply(EmittedText& text, const Pass& pass) {
  text.begin(pass);
  pass.apply(text);
  text.end(pass);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pass_that_stands_before_what_it_needs_is_named) {
  constexpr Pass kSound[] = {row("a", kNone, kMembers), row("b", kMembers, kLines), row("c", kLines, kNone)};
  static_assert(misplaced(kSound).empty());
  constexpr Pass kTurned[] = {row("b", kMembers, kLines), row("a", kNone, kMembers)};
  BOOST_TEST(misplaced(kTurned) == "b");
  constexpr Pass kLate[] = {row("a", kNone, kMembers), row("b", kMembers, kLines), row("a too", kNone, kMembers)};
  BOOST_TEST(misplaced(kLate) == "b");  // each row that gives a fact has to stand before
  constexpr Pass kNobody[] = {row("a", kNone, kMembers), row("c", kLines, kNone)};
  BOOST_TEST(misplaced(kNobody) == "c");
  constexpr Pass kOther[] = {row("a", kNone, kMembers), row("host", kMembers, kNone, Texts::Host),
                             row("late", kNone, kMembers)};
  BOOST_TEST(misplaced(kOther) == "");  // of other texts
}

BOOST_AUTO_TEST_CASE(a_pass_sees_what_the_table_says_that_it_reads) {
  const auto seen = [](unsigned reads) {
    EmittedText text("void f_0()\n{\n    g_0(a_0);\n}\n", Texts::Kernel);
    apply(text, {"first", Texts::Kernel, replace_last, kStatements, kStatements});
    text.begin({"second", Texts::Kernel, nullptr, reads, kNothing});
    return std::string(text.code()[text.code().size() - 2]);
  };
  BOOST_TEST(seen(kStatements) == "changed");
  BOOST_TEST(seen(kDirectives) == ";");
}

BOOST_AUTO_TEST_CASE(passes_whose_changes_overlap_are_named) {
  EmittedText text("void f_0()\n{\n    g_0(a_0);\n}\n", Texts::Kernel);
  apply(text, {"first", Texts::Kernel, replace_last, kStatements, kStatements});
  apply(text, {"second", Texts::Kernel, replace_last, kDirectives, kDirectives});
  BOOST_CHECK_EXCEPTION(text.body(), c10::Error, [](const c10::Error& error) {
    return contains(error.what(), "two passes change the same part of a text, 'first' and 'second'");
  });
}

BOOST_AUTO_TEST_CASE(declarations_become_members) {
  BOOST_TEST(
      rewritten(make_members,
                "__device__ __shared__ FixedArray<float, 64>  tile_0;\n"
                "__device__ static const int  n_0 = 3;\n__device__ static const float  f_0 = sin_0(n_0);\n"
                "void p_0(int i_0);\nextern \"C\" __global__ void go()\n{\n    tile_0[n_0] = f_0;\n}\n") ==
      "__device__ FixedArray<float, 64>& tsl_var_tile_0() { TSL_SHARED FixedArray<float, 64> value ; return value; }\n"
      "__device__ const int& tsl_var_n_0() { static const int value = 3; return value; }\n"
      "__device__ const float tsl_var_f_0() { const float value = sin_0(3); return value; }\n"
      "\n  __device__ void go()\n{\n    tsl_var_tile_0()[tsl_var_n_0()] = tsl_var_f_0();\n}\n");
  BOOST_CHECK_THROW(rewritten(make_members, "__device__ int n_0;\n"), UnsupportedGlobal);
}

BOOST_AUTO_TEST_CASE(host_functions_get_launches_and_lists_of_fields) {
  BOOST_TEST(rewritten(name_launched_kernels, "cudaLaunchKernel((const void*)(k_0), g_0);") ==
             "tsl::launch<decltype(k_0)>(\"k_0\", g_0);");
  BOOST_CHECK_THROW(rewritten(name_launched_kernels, "cudaLaunchKernel(k_0, g_0);"), c10::Error);
  BOOST_TEST(
      rewritten(flatten_structs, "struct P_0\n{\n    float x_0;\n    int y_0;\n};\n") ==
      "struct P_0\n{\n    float x_0;\n    int y_0;\n}; inline void tsl_flatten(tsl::Components& list, const P_0& "
      "value) { tsl_flatten(list, value.x_0); tsl_flatten(list, value.y_0); }\n");
  const std::set<std::string> names = {"f"};
  BOOST_TEST(rewritten(leave_out_definitions,
                       "SLANG_PRELUDE_EXPORT\nvoid f(int a_0)\n{\n#line 3\n    g();\n}\nint z_0;",
                       names) == "\nint z_0;");
}

BOOST_AUTO_TEST_CASE(passes_say_how_often_they_applied) {
  const Passed all =
      passed("int n_0 = (x_0).sizes[(0U)];\nfor(;;)\n{\n a_0[n_0] = 1 / n_0; break; }\nfor(;;)\n{ break; }");
  BOOST_TEST(all.count("members") == 1);
  BOOST_TEST(all.count("polled loops") == 2);
  BOOST_TEST(all.count("guarded operations") == 3);
  BOOST_TEST(all.count("added gradients") == 0);
}

BOOST_AUTO_TEST_CASE(what_has_to_be_there_and_has_another_form_is_refused) {
  const auto is_refused = [](const std::string& statements, const std::string& functions) {
    try {
      passed(statements, functions);
    } catch (const RefusedText& refused) {
      return contains(refused.reason, "in a form that torch_slang does not know");
    }
    return false;
  };
  BOOST_TEST(is_refused(
      "f_0(4294967295U);",
      "uint WaveGetActiveMask_0(uint _S1) { return _S1; }\nvoid f_0(uint _S2)\n{ WaveGetActiveMask_0(_S2); }"));
  BOOST_TEST(is_refused("int _pc_0 = 0;\nfor(;;)\n{ _S2.value1_0[_pc_0] = v_0; _pc_0 = _pc_0 + 1; }", ""));
  BOOST_CHECK_THROW(rewritten(make_members, "__device__ void f_0() { }\n"), RefusedText);
}

BOOST_AUTO_TEST_CASE(uses_are_read_from_code_alone) {
  DeviceText text;
  const Code body(
      "TSL_AT(0, 3); f(x.data_ptr<float>()); // tsl_multiply(1) TSL_AT(0, 4)\n"
      "say(\"tsl_gradient TSL_AT(0, 5)\"); tsl_multiply_blocks_forward(); data_ptr_at_0(); __half2 h; TSL_AT(0, 3); "
      "TSL_AT(1, 12); /* __nv_bfloat16 __syncthreads() */ __nv_bfloat16_7();");
  read_facts(Code("void __syncwarp_0(); __shared__ int x;"), body, text);
  BOOST_TEST(text.uses == (std::set<std::string, std::less<>>{"__half", "data_ptr"}), boost::test_tools::per_element());
  BOOST_TEST(text.sites == (std::set<std::string>{"0, 3", "1, 12"}), boost::test_tools::per_element());
  BOOST_TEST(text.barriers);  // of the file scope
  BOOST_TEST(!text.waves);
  BOOST_TEST(uses(text, {intrinsics::kMultiply, intrinsics::kHalf}));
  BOOST_TEST(!uses(text, {intrinsics::kMultiply, intrinsics::kBFloat16}));
}

BOOST_AUTO_TEST_CASE(names_of_a_source_are_those_of_its_code_and_directives) {
  NameSet names;
  add_code_names(
      "#define A B // C\n#line 3 \"D\"\n#include \"E//F\" /* G\nH */ I \"J\" R\"(K \" L)\" M\n#if N /* O */\n", names);
  BOOST_TEST(names == (NameSet{"A", "B", "I", "M", "N", "define", "if", "include"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(defines_are_used_where_code_names_them) {
  CompileRequest request = request_for(
      "// IN_COMMENT\n#if IN_DIRECTIVE\n#endif\n[PyBindCUDA(Auto)] [CudaKernel] void f([Shape(\"IN_STRING\")] "
      "TensorView<float> x) "
      "{ x[0] = IN_CODE; }");
  for (const char* name : {"IN_COMMENT", "IN_DIRECTIVE", "IN_STRING", "IN_CODE"})
    request.defines.emplace_back(name, "1");
  const Program program = program_from_json(to_json(run_compiler(request, Extent::DescribeOnly)));
  BOOST_TEST(program.used_defines == (NameSet{"IN_CODE", "IN_DIRECTIVE"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_slang_that_was_not_tested_is_told_of) {
  for (const std::string_view version : kTestedSlang) BOOST_TEST(untested_version(version) == "");
  BOOST_TEST(contains(untested_version("2099.1"), "Slang 2099.1 was not tested"));
}

BOOST_AUTO_TEST_SUITE_END()
