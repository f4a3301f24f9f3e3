// A user's source: its brackets, statements and includes, and changes one behind the other.
#include "compiler/source/source_code.h"

#include <boost/test/unit_test.hpp>

#include <c10/util/Exception.h>

#include <string>

#include "compiler/source/directives.h"
#include "compiler/source/inlined_backwards.h"
#include "compiler/source/placeholders.h"
#include "compiler/source/statements.h"
#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(source_code_test)

using namespace torch_slang;

BOOST_AUTO_TEST_CASE(angle_brackets) {
  const SourceCode code("a<b<c>>(d) ; e < f; g > h");
  BOOST_TEST(code.behind_angles(1) == 7u);
  BOOST_TEST(code.behind_angles(0) == 0u);
  BOOST_TEST(code.opening_angle(6) == 1u);
  BOOST_TEST(code[code.behind_angles(12)] == ";");   // none closes it
  BOOST_TEST(code.opening_angle(16) == 0u);          // of another statement
}

BOOST_AUTO_TEST_CASE(what_stands_outside_of_brackets) {
  const SourceCode code("f(a, b), g<c, d>(e), {;} h; i");
  BOOST_TEST(code.first_of(",", 0) == 6u);
  BOOST_TEST(code[code.first_of(",", 7) + 1] == "d");
  BOOST_TEST(code[code.first_of_list(",", 7, code.size()) + 1] == "{");
  BOOST_TEST(code[code.first_of(";", 7) + 1] == "i");
  BOOST_TEST(code.first_of(",", 0, 3) == 3u);
  BOOST_TEST(code.declaration(code.size() - 1) == code.size() - 1);
  BOOST_TEST(code[code.declaration(code.first_of(";", 0))] == "h");
}

BOOST_AUTO_TEST_CASE(statements_end) {
  for (const std::string statement : {
           "x();",
           "{ x(); }",
           "if (a) x(); else { y(); }",
           "if (a) if (b) x(); else y();",
           "for (;;) if (a) { x(); } else return;",
           "do x(); while (a);",
           "do do x(); while (a); while (b);",
           "[MaxIters(4)] outer: while (a) { x(); }",
           "$for (i in Range(0, 3)) x();",
           "switch (a) { case 0: break; }",
       }) {
    const SourceCode code(statement + " z();");
    BOOST_TEST(code[behind_statement(code, 0)] == "z", statement);
  }
}

BOOST_AUTO_TEST_CASE(includes) {
  const Code code("#include \"a b.slangh\"  // one\n # include <c/d-e.h>\n#define include \"f\"\n#include NAME\n");
  const std::vector<Include> found = includes_of(code);
  BOOST_REQUIRE(found.size() == 2u);
  BOOST_TEST(found[0].name == "a b.slangh");
  BOOST_TEST(found[0].in_quotes);
  BOOST_TEST(found[1].name == "c/d-e.h");
  BOOST_TEST(!found[1].in_quotes);
}

BOOST_AUTO_TEST_CASE(each_change_sees_what_those_before_it_made) {
  const auto twice = [](SourceCode& code) {
    for (size_t at = 0; at < code.size(); ++at) code.insert_behind(at, " a");
  };
  ChangingSource source("a", "a.slang");
  source.apply(twice);
  source.apply(twice);
  BOOST_TEST(source.text() == "a a a a");
  BOOST_TEST(source.file() == "a.slang");
}

BOOST_AUTO_TEST_CASE(a_change_that_overlaps_is_an_error_with_its_place) {
  ChangingSource source("a;\nb;\n", "a.slang");
  const auto overlaps = [](SourceCode& code) {
    code.replace({2, 3}, "c");
    code.replace({2, 4}, "d");
  };
  BOOST_CHECK_EXCEPTION(source.apply(overlaps), c10::Error, [](const c10::Error& error) {
    return std::string(error.what()).find("a.slang:2") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(placeholders_are_filled_where_no_operator_can_stand) {
  const auto filled = [](const std::string& text) {
    SourceCode code(text);
    fill_placeholders(code, {{"N", "16"}});
    return code.edited();
  };
  BOOST_TEST(filled("int n = %N%; m[%N%]; return %N%;") == "int n = 16; m[16]; return 16;");
  BOOST_TEST(filled("a %N% b; a[0] %N% b; \"%N%\" // %N%\n") == "a %N% b; a[0] %N% b; \"%N%\" // %N%\n");
  BOOST_TEST(filled("a\n#if B\n%N%\n#endif\n") == "a\n#if B\n16\n#endif\n");
  BOOST_TEST(filled("(%N% %N% 3) (% N%)") == "(16 %N% 3) (% N%)");
}

BOOST_AUTO_TEST_CASE(backwards_are_not_inlined) {
  const auto kept = [](const std::string& text) {
    SourceCode code(text);
    NameSet backwards;
    keep_backwards_calls(code, backwards);
    return code.edited();
  };
  const std::string names = "[BackwardDerivative(g)] float f(float x);";
  BOOST_TEST(kept(names + "[ForceInline] void g(int x) { } [ForceInline] void h(int x) { }") ==
             names + "              void g(int x) { } [ForceInline] void h(int x) { }");
  BOOST_TEST(kept(names + "[ForceInline, __unsafeForceInlineEarly] void g<T>(T x) { }") ==
             names + "[                                     ] void g<T>(T x) { }");
  BOOST_TEST(kept("#define G [ForceInline] void\n" + names) == "#define G               void\n" + names);
  BOOST_TEST(kept("[ForceInline] void g(int x) { } // BackwardDerivative") ==
             "[ForceInline] void g(int x) { } // BackwardDerivative");
}

BOOST_AUTO_TEST_SUITE_END()
