#include "compiler/source/while_loops.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(while_loops_test)

using torch_slang::with_for_loops;

BOOST_AUTO_TEST_CASE(while_becomes_for) {
  BOOST_TEST(with_for_loops("[MaxIters(4)] while (k < 3 && f(x)) { ++k; }") ==
             "[MaxIters(4)] for (;k < 3 && f(x);) { ++k; }");
  BOOST_TEST(with_for_loops("while (true) break; while (!true) x();") == "for (;;) break; for (;!true;) x();");
  BOOST_TEST(with_for_loops("while\n (a)\n while (b) ++k;") == "for\n (;a;)\n for (;b;) ++k;");
}

BOOST_AUTO_TEST_CASE(macros_too) {
  BOOST_TEST(
      with_for_loops("#define LOOP(n) while (k < n)\n#define TWO \\\n  while (a) b();\nLOOP(3) { while (c) d(); }") ==
      "#define LOOP(n) for (;k < n;)\n#define TWO \\\n  for (;a;) b();\nLOOP(3) { for (;c;) d(); }");
}

BOOST_AUTO_TEST_CASE(other_words_stay) {
  for (const std::string source : {
           "do { x(); } while (k < 3);",
           "do { do { x(); } while (a); } while (b);",
           "do x(); while (a); { y(); } while (b) z();",  // not understood: a `do` without braces
           "// while (a)\n/* while (a) */ string s = \"while (a)\";",
           "while (let x = f()) { }",
           "int while_ = 3; whiles(a);",
           "while (a",
       }) {
    BOOST_TEST(with_for_loops(source) == source);
  }
  BOOST_TEST(with_for_loops("do { while (a) x(); } while (b); { } while (c) y();") ==
             "do { for (;a;) x(); } while (b); { } for (;c;) y();");
}

BOOST_AUTO_TEST_SUITE_END()
