#include "compiler/source/single_exits.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(single_exits_test)

using namespace torch_slang;

namespace {

std::string with_single_exits(const std::string& source, std::vector<KeptExits>* kept = nullptr) {
  return rewritten(write_single_exits, source, kept);
}

std::string function(const std::string& body, const std::string& type = "float") {
  return "[Differentiable]\npublic static " + type + " f<T>(float x, inout float y) " + body;
}

// Without the spaces, which have no meaning here.
std::string dense(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\n') result += c;
  }
  return result;
}

void check(const std::string& body, const std::string& expected, const std::string& type = "float") {
  const std::string changed = with_single_exits(function(body, type));
  BOOST_TEST(dense(changed) == dense(function(expected, type)));
  BOOST_TEST(std::count(changed.begin(), changed.end(), '\n') ==
             1 + std::count(body.begin(), body.end(), '\n'));  // lines keep their numbers
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_stands_behind_a_return_is_in_a_block) {
  check("{ if (x > 0)\n return log(x);\n y = 2; return 0; }",
        "{ float tsl_result; bool tsl_returned = false; if (x > 0) { tsl_result = (log(x)); tsl_returned = true; }"
        " if (!tsl_returned) { y = 2; { tsl_result = (0); tsl_returned = true; } } return tsl_result; }");
  check("{ if (x > 0) { if (y > 0) return 1; y = 3; } else return 2; y = 4; return 3; }",
        "{ float tsl_result; bool tsl_returned = false; if (x > 0) { if (y > 0) { tsl_result = (1); tsl_returned = "
        "true; }"
        " if (!tsl_returned) { y = 3; } } else { tsl_result = (2); tsl_returned = true; }"
        " if (!tsl_returned) { y = 4; { tsl_result = (3); tsl_returned = true; } } return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(loops_are_left) {
  check("{ [MaxIters(3)] for (int i = 0; i < 3; ++i) { if (x > i) return i; y += x; } return y; }",
        "{ float tsl_result; bool tsl_returned = false; [MaxIters(3)] for (int i = 0; i < 3; ++i) {"
        " if (x > i) { tsl_result = (i); tsl_returned = true; break; } y += x; }"
        " if (!tsl_returned) { { tsl_result = (y); tsl_returned = true; } } return tsl_result; }");
  check("{ for (;;) [Attribute] while (true) if (x > 0) return 1; return 2; }",
        "{ float tsl_result; bool tsl_returned = false; for (;;) { [Attribute] while (true) if (x > 0) {"
        " tsl_result = (1); tsl_returned = true; break; } if (tsl_returned) break; }"
        " if (!tsl_returned) { { tsl_result = (2); tsl_returned = true; } } return tsl_result; }");
  check("{ do { switch (i) { case 0: return 1; default: y = 2; break; } y = 3; } while (y > 0); return y; }",
        "{ float tsl_result; bool tsl_returned = false; do { { switch (i) {"
        " case 0: { tsl_result = (1); tsl_returned = true; break; } default: y = 2; break; } if (tsl_returned) break; }"
        " y = 3; } while (y > 0); if (!tsl_returned) { { tsl_result = (y); tsl_returned = true; } }"
        " return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(types) {
  check("{ if (x > 0) return; y = x; }",
        "{ bool tsl_returned = false; if (x > 0) { tsl_returned = true; } if (!tsl_returned) { y = x; } }", "void");
  for (const std::string type : {"float[3]", "vector<float, 3>", "Outer.Inner", "S<T, 2>"}) {
    check("{ if (x > 0) return a; return b; }",
          "{ " + type +
              " tsl_result; bool tsl_returned = false; if (x > 0) { tsl_result = (a); tsl_returned = true; }"
              " if (!tsl_returned) { { tsl_result = (b); tsl_returned = true; } } return tsl_result; }",
          type);
  }
  BOOST_TEST(dense(with_single_exits("struct S { [Differentiable] __init(float x) { if (x > 0) return; y = x; } }")) ==
             dense("struct S { [Differentiable] __init(float x) { bool tsl_returned = false; if (x > 0) {"
                   " tsl_returned = true; } if (!tsl_returned) { y = x; } } }"));
}

BOOST_AUTO_TEST_CASE(loops_that_go_on) {
  check(
      "{ for (;;) { if (x > 0) { y = 1; continue; } y = 2; while (a) { if (b) continue; y = 3; } } return y; }",
      "{ float tsl_result; bool tsl_returned = false; for (;;) { bool tsl_continued_0 = false;"
      " if (x > 0) { y = 1; tsl_continued_0 = true; } if (!tsl_continued_0) { y = 2;"
      " while (a) { bool tsl_continued_1 = false; if (b) tsl_continued_1 = true; if (!tsl_continued_1) { y = 3; } } } }"
      " { tsl_result = (y); tsl_returned = true; } return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(switches_in_loops_that_go_on) {
  check("{ for (;;) { switch (i) { case 0: continue; } y = 2; } return y; }",
        "{ float tsl_result; bool tsl_returned = false; for (;;) { bool tsl_continued_0 = false; switch (i) {"
        " case 0: { tsl_continued_0 = true; break; } } if (!tsl_continued_0) { y = 2; } }"
        " { tsl_result = (y); tsl_returned = true; } return tsl_result; }");
  check(
      "{ for (;;) { switch (i) { case A::b: switch (j) { default: continue; } y = 1; } y = 2; } return y; }",
      "{ float tsl_result; bool tsl_returned = false; for (;;) { bool tsl_continued_0 = false; switch (i) {"
      " case A::b: { switch (j) { default: { tsl_continued_0 = true; break; } } if (tsl_continued_0) break; } y = 1; }"
      " if (!tsl_continued_0) { y = 2; } } { tsl_result = (y); tsl_returned = true; } return tsl_result; }");
  check("{ for (;;) if (x > 0) continue; return y; }",
        "{ float tsl_result; bool tsl_returned = false; for (;;) { bool tsl_continued_0 = false;"
        " if (x > 0) tsl_continued_0 = true; } { tsl_result = (y); tsl_returned = true; } return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(statements_of_all_kinds) {
  const std::string begin = "{ float tsl_result; bool tsl_returned = false; ";
  const std::string left = "if (x > 0) { tsl_result = (1); tsl_returned = true; } if (!tsl_returned) { ";
  const std::string end = " { tsl_result = (2); tsl_returned = true; } } return tsl_result; }";
  for (const std::string statement : {
           "typealias T = float;",
           "struct S { int g() { if (x > 0) return 1; return 2; } };",
           "struct S { }",
           "defer { y = 2; }",
           "defer y = 2;",
           "// issue #12\n",
           "A::g(x);",
           "static const int k = 3;",
       }) {
    check("{ if (x > 0) return 1; " + statement + " return 2; }", begin + left + statement + end);
    check("{ " + statement + " if (x > 0) return 1; return 2; }", begin + statement + left + end);
  }
  check("{ outer: [MaxIters(3)] for (;;) { for (;;) { if (x > 0) return 1; break outer; } } return 2; }",
        begin +
            "outer: [MaxIters(3)] for (;;) { { for (;;) { if (x > 0) { tsl_result = (1); tsl_returned = true; break; }"
            " break outer; } if (tsl_returned) break; } } if (!tsl_returned) {" +
            end);
  check("{ $for (i in Range(0, 2)) { if (x > i) return 1; y = 2; } return 2; }",
        begin +
            "$for (i in Range(0, 2)) if (!tsl_returned) { if (x > i) { tsl_result = (1); tsl_returned = true; }"
            " if (!tsl_returned) { y = 2; } } if (!tsl_returned) {" +
            end);
  check("{ __target_switch { case cuda: return 1; default: y = 1; } return 2; }",
        begin +
            "__target_switch { case cuda: { tsl_result = (1); tsl_returned = true; break; } default: y = 1; }"
            " if (!tsl_returned) {" +
            end);
}

BOOST_AUTO_TEST_CASE(values_of_several_parts) {
  check(
      "{ if (x > 0) return y *= x, x * x; return {1, 2}; }",
      "{ float tsl_result; bool tsl_returned = false; if (x > 0) { tsl_result = (y *= x, x * x); tsl_returned = true; }"
      " if (!tsl_returned) { { tsl_result = {1, 2}; tsl_returned = true; } } return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(functions_in_functions_return_themselves) {
  check("{ let g = (float z) => { return z; }; if (x > 0) return g(x); return 1; }",
        "{ float tsl_result; bool tsl_returned = false; let g = (float z) => { return z; };"
        " if (x > 0) { tsl_result = (g(x)); tsl_returned = true; }"
        " if (!tsl_returned) { { tsl_result = (1); tsl_returned = true; } } return tsl_result; }");
}

BOOST_AUTO_TEST_CASE(others_stay) {
  for (const std::string body : {
           "{ return x; }",
           "{ if (x > 0) { y = x; } else { y = 2; } return y; }",
           "{ if (x > 0) throw 1; if (x < 1) return 1; return 2; }",
           "{ do { if (x > 0) return 1; } catch (e : int) { } return 2; }",
           "{ if (x > 0) return; return 1; }",
           "{ if (x > 0) return 1",
       }) {
    BOOST_TEST(with_single_exits(function(body)) == function(body));
  }
  for (const std::string source : {
           "float f(float x) { if (x > 0) return 1; return 2; }",
           "[Differentiable] some IShape f(float x) { if (x > 0) return a; return b; }",
           "[Differentiable] float f(float x);",
       }) {
    BOOST_TEST(with_single_exits(source) == source);
  }
}

BOOST_AUTO_TEST_CASE(declarations_of_all_kinds) {
  const auto changes = [](const std::string& declaration, const std::string& type) {
    const std::string changed = dense(with_single_exits(declaration + " { if (x > 0) return 1; return 2; }"));
    const std::string result = type.empty() ? "" : type + " tsl_result;";
    BOOST_TEST(changed.starts_with(dense(declaration + "{" + result + "bool tsl_returned = false;")), changed);
  };
  changes("[Differentiable] func f(x : float) -> float3", "float3");
  changes("[Differentiable] S operator+(S a, S b)", "S");
  changes("[Differentiable] __generic<T : IFloat> public T f(T x) where T : IDifferentiable", "T");
  changes("__generic<let N : int> [Differentiable] float f(float x)", "float");
  changes("[ForwardDifferentiable] float f(float x)", "float");
  changes("[Differentiable(1)] [Other(2)] no_diff float f(float x)", "float");
  changes("[[Differentiable]] float f(float x)", "float");
  for (const std::string property : {"property double p", "property p : double", "__subscript(int i) -> double"}) {
    changes("struct S { " + property + " { [Differentiable] get", "double");
  }
  check("{ if (x > 0) return g(); y = x; }",
        "{ bool tsl_returned = false; if (x > 0) { g(); tsl_returned = true; } if (!tsl_returned) { y = x; } }",
        "void");
  check(
      "{ double tsl_result = 2; if (x > 0) return tsl_result; return 1; }",
      "{ float tsl1_result; bool tsl1_returned = false; double tsl_result = 2; if (x > 0) { tsl1_result = (tsl_result);"
      " tsl1_returned = true; } if (!tsl1_returned) { { tsl1_result = (1); tsl1_returned = true; } }"
      " return tsl1_result; }");
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_said_where_it_matters) {
  std::vector<KeptExits> kept;
  with_single_exits(function("{ if (x > 0) throw 1;\n if (x < 1) return 1; return 2; }"), &kept);
  BOOST_TEST(kept.empty());
  with_single_exits(function("{\n for (;;) { if (x < 1) return 1;\n throw 1; } }"), &kept);
  BOOST_TEST(kept.size() == 1u);
  BOOST_TEST(kept.at(0).function == "f");
  BOOST_TEST(kept.at(0).statement == "throw");
  BOOST_TEST(kept.at(0).location == "a.slang:4");
  BOOST_TEST(all_kept_exits(SourceCode(function("{ for (;;) { if (x < 1) return 1; } }"))).size() == 1u);
  BOOST_TEST(all_kept_exits(SourceCode(function("{ if (x < 1) return 1; return 2; }"))).empty());
}

BOOST_AUTO_TEST_SUITE_END()
