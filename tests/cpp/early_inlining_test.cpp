#include "compiler/source/early_inlining.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(early_inlining_test)

namespace {

std::string with_early_inlining(const std::string& source) {
  return torch_slang::rewritten(torch_slang::inline_early, source);
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_that_return_at_the_end_are_marked) {
  for (const std::string body : {
           "{ return x; }",
           "{ }",
           "{ y = x; }",
           "{ if (x > 0) { y = x; } else { y = 2; } return y; }",
           "{ for (int i = 0; i < 3; ++i) y += x; return y; }",
           "{ S s = {x, x}; return f(s); }",
           "{ struct S { int g() { if (x > 0) return 1; return 2; } }; return f(x); }",
           "{ let g = (float z) => { return z; }; return g(x); }",
       }) {
    BOOST_TEST(with_early_inlining("[Differentiable] float f(float x) " + body) ==
               "[Differentiable, __unsafeForceInlineEarly] float f(float x) " + body);
  }
  BOOST_TEST(with_early_inlining("[Differentiable(1)] float f(float x) { return x; }") ==
             "[Differentiable(1), __unsafeForceInlineEarly] float f(float x) { return x; }");
  BOOST_TEST(
      with_early_inlining("[ForceInline, BackwardDifferentiable] [Other(1)]\nfloat f<T>(T x = T(0)) { return 1; }") ==
      "[ForceInline, BackwardDifferentiable, __unsafeForceInlineEarly] [Other(1)]\nfloat f<T>(T x = T(0)) { return 1; "
      "}");
}

BOOST_AUTO_TEST_CASE(others_stay_calls) {
  for (const std::string source : {
           "[Differentiable] float f(float x) { if (x > 0) return x; return 0; }",
           "[Differentiable] float f(float x) { if (x > 0) return x; else return 0; }",
           "[Differentiable] float f(float x) { if (x > 0) { return x; } return 0; }",
           "[Differentiable] float f(float x) { if (x > 0) return x; }",
           "[Differentiable] void f(float x) { if (x > 0) return; y = x; }",
           "[Differentiable] float f(float x) { for (;;) return x; }",
           "[Differentiable] float f(float x);",
           "// [Differentiable]\nfloat f(float x) { return x; }",
           "#define DIFF [Differentiable]\nDIFF float f(float x) { return x; }",
           "float Differentiable(float x) { return x; }",
           "[Differentiable]",
           "[Differentiable] float f(float x) {",
       }) {
    BOOST_TEST(with_early_inlining(source) == source);
  }
}

BOOST_AUTO_TEST_SUITE_END()
