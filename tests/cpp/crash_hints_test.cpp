#include <boost/test/unit_test.hpp>

#include <string>

#include "compiler/crash_hints.h"

using torch_slang::crash_hints;

BOOST_AUTO_TEST_SUITE(hints_of_crashes)

BOOST_AUTO_TEST_CASE(what_is_known_is_found_with_its_line) {
  const auto names = [](const std::string& source, const std::string& words) {
    return crash_hints(source, "f.slang").find(words) != std::string::npos;
  };
  BOOST_TEST(names("\nwhile (a && b) {}", "f.slang:2: `while`"));
  BOOST_TEST(names("while (f(a) || b) {}", "f.slang:1: `while`"));
  BOOST_TEST(names("for (int k = starts[t]; k < 3; ++k) {}", "begins with an element"));
  BOOST_TEST(names("switch (i) { case 0: a(); case 1: b(); break; }", "a case into which"));
  BOOST_TEST(names("switch (i) { case 0: { a(); } default: b(); }", "a case into which"));
  BOOST_TEST(names("property int n { [BackwardDifferentiable] get { return 1; } }", "`property`"));
}

BOOST_AUTO_TEST_CASE(nothing_is_said_of_the_rest) {
  for (const std::string source : {
           "while (a & b) {} // while (a && b)",
           "if (a && b) { while (a) { c = a && b; } }",
           "for (int k = 0; k < ends[t] && a; ++k) {}",
           "switch (i) { case 0: case 1: a(); break; case 2: { if (a) { b(); } return; } default: c(); }",
           "switch (i) { case 0: { a(); break; } case 1: return f(x); case 2: continue; }",
           "property int n { get { return 1; } }",
           "",
       }) {
    BOOST_TEST(crash_hints(source, "f.slang") == "");
  }
}

BOOST_AUTO_TEST_SUITE_END()
