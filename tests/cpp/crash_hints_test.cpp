#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>

#include "compiler/source/crash_hints.h"

BOOST_AUTO_TEST_SUITE(crash_hints_test)

using torch_slang::crash_hints;

BOOST_AUTO_TEST_SUITE(hints_of_crashes)

BOOST_AUTO_TEST_CASE(what_is_known_is_found_with_its_line) {
  const auto names = [](const std::string& source, const std::string& words) {
    return crash_hints(source, "f.slang").find(words) != std::string::npos;
  };
  BOOST_TEST(names("switch (i) { case 0: a(); case 1: b(); break; }", "a case into which"));
  BOOST_TEST(names("switch (i) { case 0: { a(); } default: b(); }", "a case into which"));
  BOOST_TEST(names("property int n { [BackwardDifferentiable] get { return 1; } }", "`property`"));
  const std::string pair = "DifferentialPair<float>", forward = pair + " g(" + pair + " p) { return p; }";
  const auto names_twice = [](const std::string& source, const std::string& words) {
    return crash_hints(source, "f.slang", true).find(words) != std::string::npos;
  };
  const std::string early = "float f(float x) {\nif (x > 0) return x;\nreturn 0; }";
  BOOST_TEST(names_twice(early, "f.slang:2: a `return` before"));
  BOOST_TEST(!names_twice(early, "f.slang:3:"));
  BOOST_TEST(crash_hints(early, "f.slang") == "");
  BOOST_TEST(
      names_twice("[ForwardDerivative(g)] float f(float x) { return x; }\n" + forward, "f.slang:1: a [ForwardDer"));
  BOOST_TEST(
      names_twice("float f(float x) { return x; }\n[ForwardDerivativeOf(f)] " + forward, "f.slang:2: a [ForwardDer"));
}

BOOST_AUTO_TEST_CASE(nothing_is_said_of_the_rest) {
  for (const std::string source : {
           "while (a && b) { if (c) continue; }",
           "for (int k = 0; k < ends[t] && a; ++k) {}",
           "for (int k = starts[t]; k < 3; ++k) {}",
           "float f(float x) { bwd_diff(g)(x); return fwd_diff(h)(x); } void h(out float x) { x = 1; }",
           "struct S {} [Differentiable] float f(float x) { return fwd_diff(S.g)(x).d; }",
           "switch (i) { case 0: case 1: a(); break; case 2: { if (a) { b(); } return; } default: c(); }",
           "switch (i) { case 0: { a(); break; } case 1: return f(x); case 2: continue; }",
           "property int n { get { return 1; } }",
           "[ForwardDerivative(g)] float f(float x); [Differentiable] DifferentialPair<float> "
           "g(DifferentialPair<float> p) {}",
           "[Differentiable] [ForwardDerivativeOf(f)] DifferentialPair<float> g(DifferentialPair<float> p) {}",
           "[ForwardDerivative(A.g)] float f(float x);",
           "",
       }) {
    BOOST_TEST(crash_hints(source, "f.slang") == "");
  }
}

BOOST_AUTO_TEST_CASE(calls_of_derivatives_are_found) {
  const auto names = [](const std::string& source, const std::string& words) {
    return crash_hints(source, "f.slang").find(words) != std::string::npos;
  };
  const std::string begin = "[Differentiable] float f(float x)\n{ ";
  BOOST_TEST(names(begin + "bwd_diff(g)(p, 1); }", "f.slang:2: `bwd_diff` inside"));
  BOOST_TEST(names(begin + "fwd_diff(h)(p, y); }\nvoid h(float x, out float y) {}", "f.slang:2: `fwd_diff` of"));
  BOOST_TEST(names("float f(S s, float x)\n{ fwd_diff(s.g)(x); }", "f.slang:2: a derivative of an object's method"));
  const std::string base = "interface A : IDifferentiable {} interface B : A {} B make() {}\n";
  BOOST_TEST(names(base + begin + "B b = x; }", "f.slang:3: a variable of an interface"));
  BOOST_TEST(!names(base + begin + "A a = x; }", "a variable of an interface"));
  BOOST_TEST(names(base + begin + "g(make()); }", "f.slang:3: a function that returns an interface"));
}

BOOST_AUTO_TEST_CASE(functions_that_are_not_called_are_left_out) {
  const std::string source =
      "float f(float x) { return g<int>(x); }\nfloat g<T : IFloat>(float x) { return x % 2; }\nfloat h(float x) { "
      "return x % 3; "
      "}";
  const auto lines = [&](const std::string& function) {
    const std::string hints = crash_hints(source, "f.slang", false, function);
    return std::pair(hints.find("f.slang:2") != std::string::npos, hints.find("f.slang:3") != std::string::npos);
  };
  BOOST_TEST((lines("f") == std::pair(true, false)));
  BOOST_TEST((lines("S_h") == std::pair(false, true)));
  BOOST_TEST((lines("") == std::pair(true, true)));
  BOOST_TEST((lines("elsewhere") == std::pair(true, true)));
}

BOOST_AUTO_TEST_CASE(remainders_of_floats_are_found) {
  const auto found = [](const std::string& expression) {
    return !crash_hints("float f<T : IFloat>(float x, float2 v, int k) { int n = k; return " + expression + "; }",
                        "f.slang")
                .empty();
  };
  for (const std::string one : {"x % k", "k % x", "(x * 2) % k", "v.x % 2", "k % 1.5", "x %= 2"})
    BOOST_TEST(found(one), one);
  for (const std::string one : {"k % 3", "n % k", "x * (k % 0x1f)", "fmod(x, 2)"}) BOOST_TEST(!found(one), one);
  BOOST_TEST(crash_hints("float f(float x) { return x % 2; }", "f.slang") == "");
}

// What is looked at may be no Slang at all.
BOOST_AUTO_TEST_CASE(broken_sources_are_read_to_their_end) {
  for (const std::string source :
       {"f(", "f(float3 a", "float f(float3 a) { if", "struct", "struct {", "% x", "x %",
        "float f(float3 a, float z) { if (a) a = a * ", "continue", "while", "do", "for", "float f(vector<",
        "float f() { float ,,; float a[; }", "]*[", ")%(", "f() {) * (}"}) {
    BOOST_TEST(crash_hints(source, "f.slang") == "", source);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
