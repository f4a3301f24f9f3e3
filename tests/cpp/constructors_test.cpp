#include "compiler/source/constructors.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(constructors_test)

namespace {

std::string with_constructors(const std::string& source) {
  return torch_slang::rewritten(torch_slang::write_constructors, source);
}

}  // namespace

namespace {

std::string added(const std::string& source) {
  const std::string result = with_constructors(source);
  BOOST_TEST(result.starts_with(source.substr(0, source.size() - 1)));
  return result.substr(source.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_constructor_takes_the_fields_and_their_values) {
  BOOST_TEST(
      added("struct S : IDifferentiable { float a; float2 b = 1, c[3]; no_diff int n; }") ==
      "; extension S { [OverloadRank(10)] [Differentiable, __unsafeForceInlineEarly] __init(float a = {}, float2 "
      "b = 1, float2 c[3] = {}, "
      "no_diff int n = {}) { this.a = a; this.b = b; this.c = c; this.n = n; } }");
  BOOST_TEST(added("struct S<T : IFloat, let N : int> : IDifferentiable { vector<T, N> a; };")
                 .starts_with(" extension<T : IFloat, let N : int> S<T, N> { [OverloadRank(10)] [Differentiable, "
                              "__unsafeForceInlineEarly] "
                              "__init(vector<T, N> a = {})"));
  BOOST_TEST(
      added("public struct S : IDifferentiable { public float a; float f() { return a; } static int n; };")
          .starts_with(" public extension S { public [OverloadRank(10)] [Differentiable, __unsafeForceInlineEarly] "
                       "__init(float a = {})"));
}

BOOST_AUTO_TEST_CASE(other_structs_stay_as_they_are) {
  for (const std::string source : {
           "struct S { float a; };",
           "struct S<T : IDifferentiable> { float a; };",
           "struct S : IDifferentiable;",
           "struct S : IDifferentiable { };",
           "struct S : IDifferentiable { float a; __init(float x) { a = x; } };",
           "struct S : IDifferentiable { FIELDS(a, b); float a; };",
           "struct S : IDifferentiable { var a : float; };",
           "struct S : IDifferentiable { private float a; };",
           "struct S : IDifferentiable { float a;\n#if X\nfloat b;\n#endif\n};",
           "struct S : IDifferentiable { float a } ;",
           "struct S : IDifferentiable { float a; } s;",
           "struct O { struct S : IDifferentiable { float a; }; };",
           "struct S : IDifferentiable { float a = f( };",
           "struct S : IDifferentiable { float a;",
           "struct S : IDifferentiable",
           "struct",
       }) {
    BOOST_TEST(with_constructors(source) == source);
  }
}

BOOST_AUTO_TEST_CASE(lines_stay) {
  const std::string source =
      "struct S : IDifferentiable\n{\n  float a;\n};\nstruct T : IDifferentiable { S s; }\nfloat f;";
  const std::string result = with_constructors(source);
  BOOST_TEST(result.find("};", 40) != std::string::npos);
  BOOST_TEST(std::count(result.begin(), result.end(), '\n') == std::count(source.begin(), source.end(), '\n'));
  BOOST_TEST(result.find("extension T") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
