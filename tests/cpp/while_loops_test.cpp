#include "compiler/source/while_loops.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(while_loops_test)

namespace {

std::string with_for_loops(const std::string& source) {
  return torch_slang::rewritten(torch_slang::write_for_loops, source);
}

}  // namespace

BOOST_AUTO_TEST_CASE(while_becomes_for) {
  BOOST_TEST(with_for_loops("[MaxIters(4)] while (k < 3 && f(x)) { ++k; }") ==
             "[MaxIters(4)] for (;k < 3 && f(x);) { ++k; }");
  BOOST_TEST(with_for_loops("while (true) break; while (!true) x();") == "for (;;) break; for (;!true;) x();");
  BOOST_TEST(with_for_loops("while\n (a)\n while (b) ++k;") == "for\n (;a;)\n for (;b;) ++k;");
}

BOOST_AUTO_TEST_CASE(do_with_continue_becomes_for) {
  BOOST_TEST(
      with_for_loops("if (x) do { if (a) continue; x(); } while (k < 3); else y();") ==
      "if (x) for (bool tsl_again_4 = true; tsl_again_4; tsl_again_4 = (k<3)) { if (a) continue; x(); }  else y();");
  for (const std::string source : {"do { for (;;) { continue; } } while (a);", "do { if (b) break; } while (a);"}) {
    BOOST_TEST(with_for_loops(source) == source);
  }
}

BOOST_AUTO_TEST_CASE(other_words_stay) {
  for (const std::string source : {
           "do { x(); } while (k < 3);",
           "do { do { x(); } while (a); } while (b);",
           "do x(); while (a);",
           "do if (a) x(); else { y(); } while (b);",
           "do for (;;) { x(); } while (b);",
           "do here: x(); while (b);",
           "#define LOOP while (a)",  // Slang's preprocessor puts it into the code: Note [hidden control flow]
           "// while (a)\n/* while (a) */ string s = \"while (a)\";",
           "int while_ = 3; whiles(a);",
           "while (a",
       }) {
    BOOST_TEST(with_for_loops(source) == source);
  }
  BOOST_TEST(with_for_loops("do { while (a) x(); } while (b); { } while (c) y();") ==
             "do { for (;a;) x(); } while (b); { } for (;c;) y();");
  BOOST_TEST(with_for_loops("do x(); while (a); while (b) z();") == "do x(); while (a); for (;b;) z();");
  BOOST_TEST(with_for_loops("do while (a) x(); while (b);") == "do for (;a;) x(); while (b);");
  BOOST_TEST(with_for_loops("do do x(); while (a); while (b); while (c);") ==
             "do do x(); while (a); while (b); for (;c;);");
}

BOOST_AUTO_TEST_CASE(conditions_of_any_form) {
  BOOST_TEST(with_for_loops("while (no_diff g(r) < c) x();") == "for (;no_diff g(r) < c;) x();");
  BOOST_TEST(with_for_loops("while (shape is Sphere) x();") == "for (;shape is Sphere;) x();");
}

BOOST_AUTO_TEST_SUITE_END()
