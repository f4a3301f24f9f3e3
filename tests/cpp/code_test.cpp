// Tokens, brackets, places and edits, which sources and emitted texts share.
#include "compiler/text/code.h"

#include <boost/test/unit_test.hpp>

#include <c10/util/Exception.h>

#include <string>

BOOST_AUTO_TEST_SUITE(code_test)

using torch_slang::Code;

namespace {

std::string error_of(const Code& code) {
  try {
    code.edited();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(brackets) {
  const Code code("f(a[g(1)], {b}) < c<d<e>> (");
  BOOST_TEST(code.closing(1) == 13u);
  BOOST_TEST(code.opening(13) == 1u);
  BOOST_TEST(code.closing(3) == 8u);
  BOOST_TEST(code.closing_angle(16, code.size()) == 21u);
  BOOST_TEST(code.closing(code.size() - 1) == code.size());
  BOOST_TEST(code.opening(2) == 0u);
}

BOOST_AUTO_TEST_CASE(locations_are_those_of_line_directives) {
  const Code code("a\nb\n#line 7 \"m.slang\"\nc\n d\n# line 20\n\ne", "a.slang");
  BOOST_TEST(code.location(0) == "a.slang:1");
  BOOST_TEST(code.location(1) == "a.slang:2");
  BOOST_TEST(code.location(2) == "m.slang:7");
  BOOST_TEST(code.location(3) == "m.slang:8");
  BOOST_TEST(code.location(4) == "m.slang:21");
  BOOST_TEST(code.location(code.size()) == "m.slang:21");
  BOOST_TEST(code.line(4) == 8u);
  BOOST_TEST(code.said_place(3) == "m.slang:7");
  BOOST_TEST(code.said_place(1) == "");
}

BOOST_AUTO_TEST_CASE(edits_of_one_place_stand_in_their_order) {
  Code code("a /* and */ b;c");
  code.insert(1, "1 ");
  code.replace({1, 2}, "B");
  code.insert(1, "2 ");
  code.insert_first(1, "0 ");
  code.insert_first(1, "- ");
  code.insert_behind(2, " 3");
  code.insert(3, " 4 ");
  BOOST_TEST(code.edited() == "a /* and */ - 0 1 2 B; 3 4 c");
}

BOOST_AUTO_TEST_CASE(edits_are_forgotten_from_the_last_on) {
  Code code("a b");
  code.insert(1, "1 ");
  const size_t edits = code.edits();
  code.insert_first(1, "2 ");
  code.replace({0, 1}, "3");
  code.forget_edits(edits);
  BOOST_TEST(code.edited() == "a 1 b");
}

BOOST_AUTO_TEST_CASE(directives_in_a_replaced_span_stay_but_are_replaced_themselves) {
  Code code("a\n#line 3\nb c\n");
  code.replace({0, 2}, "d");
  BOOST_TEST(code.edited() == "d\n#line 3\n c\n");
  Code other("#include <a>\nb\n");
  other.replace_directive(0, "#include \"a\"");
  other.insert(0, "c ");
  BOOST_TEST(other.edited() == "#include \"a\"\nc b\n");
}

BOOST_AUTO_TEST_CASE(an_overlap_is_an_error_with_its_file_and_line) {
  Code code("a;\nb c d;\n", "a.slang");
  code.replace({2, 4}, "e");
  code.replace({3, 5}, "f");
  BOOST_TEST(contains(error_of(code), "a.slang:2"));
  Code twice("#line 4 \"b.slang\"\na b\n");
  twice.replace({1, 2}, "c");
  twice.replace({1, 2}, "c");
  BOOST_TEST(contains(error_of(twice), "b.slang:4"));
  Code within("a;\nb c d;\n", "a.slang");
  within.replace({2, 5}, "e");
  within.insert(3, "f");
  BOOST_TEST(contains(error_of(within), "a.slang:2"));
}

BOOST_AUTO_TEST_SUITE_END()
