#include "compiler/source/loop_copies.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(loop_copies_test)

namespace {

std::string with_calls(const std::string& source) {
  return torch_slang::rewritten(torch_slang::write_copies_as_calls, source);
}

std::string looped(const std::string& before, const std::string& in_loop) {
  return "[Differentiable] float f(float2 p) { float2 u = p * 2; " + before + " for (int k = 0; k < 2; ++k) { " +
         in_loop + " } return u.x; }";
}

const std::string kChange = "void change(inout float2 v) {} void step(out float2 v) {} ";

void check_becomes(const std::string& before, const std::string& from, const std::string& to) {
  BOOST_TEST(with_calls(kChange + looped(before, from)) == kChange + looped(before, to));
}

}  // namespace

BOOST_AUTO_TEST_CASE(copies_whose_parts_change) {
  check_becomes("float2 v = p.yx; v.x = 1;", "float2 t = v; t[k] = 2;", "float2 t = tsl_copy(v); t[k] = 2;");
  check_becomes("float2 v = p.yx; v += 1;", "u = v; u.y *= 2;", "u = tsl_copy(v); u.y *= 2;");
  check_becomes("float2 v = u;", "float2 t = v; change(t);", "float2 t = tsl_copy(v); change(t);");
  check_becomes("float2 v; step(v);", "float2 w = v; float2 t = w; t[k] = 2;",
                "float2 w = v; float2 t = tsl_copy(w); t[k] = 2;");
  check_becomes("float2 v; step(v);", "a[0] = v;", "a[0] = tsl_copy(v);");
  check_becomes("float v[2] = {1, 2}; v[0] = 3;", "float t[2] = v; t[k]++;", "float t[2] = tsl_copy(v); t[k]++;");
}

BOOST_AUTO_TEST_CASE(other_copies_stay) {
  for (const auto& [before, in_loop] : {
           std::pair("float2 v = p.yx;", "float2 t = v; t[k] = 2;"),           // nobody changes v
           std::pair("", "float2 t = p; t[k] = 2;"),                           // nor p
           std::pair("float2 v = p.yx; v.x = 1;", "float2 t = v; u += t.x;"),  // t's parts stay
           std::pair("float v = 1; v += 2;", "float t = v; t += u[0];"),       // numbers
           std::pair("IShape v; change(v);", "IShape t = v; change(t);"),      // interfaces
           std::pair("", "float2 v = p * 2; v.x = 1; float2 t = v; t[k] = 2;"),    // v is of the same iteration
           std::pair("float2 v = p.yx; v.x = 1;", "const float2 t = v; u = t[0];"),
       }) {
    BOOST_TEST(with_calls(kChange + looped(before, in_loop)) == kChange + looped(before, in_loop));
  }
  for (const std::string source : {
           "[Differentiable] float f(float2 v) { v.x = 1; float2 t = v; t[0] = 2; return t.x; }",
           "float f(float2 v) { v.x = 1; for (;;) { float2 t = v; t[0] = 2; } }",
           "[Differentiable] float f(float2 v) { v.x = 1; [ForceUnroll] for (;;) { float2 t = v; t[0] = 2; } }",
       }) {
    BOOST_TEST(with_calls(source) == source);
  }
}

BOOST_AUTO_TEST_CASE(inlined_functions) {
  BOOST_TEST(
      with_calls("[ForceInline] [Differentiable] float2 f(float2 p, int k) { p[k] = 1; return p; }") ==
      "[ForceInline] [Differentiable] float2 f(float2 p, int k) { p = tsl_copy(p); p[k] = 1; return tsl_copy(p); }");
  for (const std::string source : {
           "[ForceInline] [Differentiable] float f(float x) { x += 1; return x; }",
           "[ForceInline] [Differentiable] void f(inout float2 p, int k) { p[k] = 1; }",
       }) {
    BOOST_TEST(with_calls(source) == source);
  }
}

BOOST_AUTO_TEST_SUITE_END()
