#include "compiler/emit/joined_branches.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "packed.h"

BOOST_AUTO_TEST_SUITE(joined_branches_test)

namespace {

std::string in_function(const std::string& statements) { return "void f(bool c, bool k) {" + statements + "}"; }

std::string joined(const std::string& statements) {
  torch_slang::EmittedCode code(in_function(statements));
  torch_slang::join_branches(code);
  return code.edited();
}

void check(const std::string& statements, const std::string& expected) {
  BOOST_TEST(packed(joined(statements)) == packed(in_function(expected)));
}
void check_left_alone(const std::string& statements) { check(statements, statements); }

}  // namespace

BOOST_AUTO_TEST_CASE(branches_on_one_variable_become_one) {
  check("if(c) { a(); } else { b(); } if(c) { d(); } z();", "if(c) { a(); d(); } else { b(); } z();");
  check("if(c) { a(); } if(c) { d(); } else { e(); }", "if(c) { a(); d(); } else { e(); }");
  check("if(c) { a(); } else { b(); } if(c) { d(); } else { e(); } if(c) { f(); }",
        "if(c) { a(); d(); f(); } else { b(); e(); }");
}

BOOST_AUTO_TEST_CASE(what_they_hold_is_joined_in_turn) {
  check("if(c) { if(k) { a(); } else { b(); } } if(c) { if(k) { d(); } }",
        "if(c) { if(k) { a(); d(); } else { b(); } }");
  check("for(;;) { if(c) { a(); } if(c) { d(); } }", "for(;;) { if(c) { a(); d(); } }");
  check("if(n == 1) { if(c) { a(); } if(c) { d(); } }", "if(n == 1) { if(c) { a(); d(); } }");
}

BOOST_AUTO_TEST_CASE(a_little_between_them_goes_both_ways) {
  check("if(c) { a(); } else { b(); } float s; x = y; if(c) { d(); }",
        "float s; if(c) { a(); x = y; d(); } else { b(); x = y; }");
  check(
      "if(c) { a(); } FixedArray<float, 3> s; if(!(k != int(2))) { s[0] = 1; } else { break; } (&x)->y = s; if(c) { "
      "d(); }",
      "FixedArray<float, 3> s; if(c) { a(); if(!(k != int(2))) { s[0] = 1; } else { break; } (&x)->y = s; d(); }"
      "else { if(!(k != int(2))) { s[0] = 1; } else { break; } (&x)->y = s; }");
}

BOOST_AUTO_TEST_CASE(the_condition_must_stay_what_it_is) {
  check_left_alone("if(c) { c = false; } if(c) { d(); }");
  check_left_alone("if(c) { a(); } else { c = true; } if(c) { d(); }");
  check_left_alone("if(c) { set(&c); } if(c) { d(); }");
  check_left_alone("if(c) { a(); } c = k; if(c) { d(); }");
  check("if(c) { x = c == k; } if(c) { d(); }", "if(c) { x = c == k; d(); }");
  check("if(c) { a(); } if(c) { c = k; } if(c) { d(); }", "if(c) { a(); c = k; } if(c) { d(); }");
}

BOOST_AUTO_TEST_CASE(what_cannot_go_both_ways_stays_between) {
  for (const char* between : {"float s = x;", "meet();", "x = meet();", "return;", "break;", "for(;;) { }", "x += y;",
                              "if(k) { meet(); }", "while(k) { }", "T* p = q;"}) {
    BOOST_TEST_CONTEXT(between) { check_left_alone("if(c) { a(); } " + std::string(between) + " if(c) { d(); }"); }
  }
  std::string much;
  for (int i = 0; i < 100; ++i) much += "x = y; ";
  check_left_alone("if(c) { a(); } " + much + "if(c) { d(); }");
}

BOOST_AUTO_TEST_CASE(other_branches_stay_as_they_are) {
  check_left_alone("if(c) { a(); } if(k) { d(); }");
  check_left_alone("if(c < 1) { a(); } if(c < 1) { d(); }");
  check_left_alone("if(c) { a(); } else if(k) { b(); } if(c) { d(); }");
  check_left_alone("if(k) { a(); } else if(c) { b(); } if(c) { d(); }");
  check_left_alone("if(c) a(); if(c) d();");
  check_left_alone("say(\"if(c) { } if(c) { }\"); // if(c) { } if(c) { }\n");
}

BOOST_AUTO_TEST_CASE(a_function_with_a_form_that_is_not_known_stays) {
  check_left_alone("if(c) { a(); } if(c) { goto end; }");
  check_left_alone("if(c) { x = 1, y = 2; } if(c) { d(); }");
}

BOOST_AUTO_TEST_CASE(lines_are_told_of_what_is_moved) {
  BOOST_TEST(joined("\n#line 5\n    if(c)\n    {\n#line 6\n a();\n }\n\n#line 9\n if(c)\n {\n d();\n }\n") ==
             in_function("\n#line 5\n    if(c)\n{\n#line 6\n a();\n \n\n#line 9\n \n d();\n }\n"));
}

BOOST_AUTO_TEST_SUITE_END()
