#include "compiler/source/hidden_flow.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(hidden_flow_test)

namespace {

const std::string kFunction = "[Differentiable] float f(float x) { ";

bool hides(const std::string& text, const std::vector<std::pair<std::string, std::string>>& defines = {}) {
  const torch_slang::SourceCode source(text);
  return torch_slang::hides_control_flow({&source}, defines);
}

}  // namespace

BOOST_AUTO_TEST_CASE(macros_with_statements) {
  for (const std::string macro : {"LOOP while", "LOOP \\\n while", "LOOP(x) do { x; } while (false)", "LOOP(x) x;"}) {
    BOOST_TEST(hides("#define " + macro + "\n" + kFunction + "LOOP }"));
    BOOST_TEST(!hides("#define " + macro + "\nfloat f(float x) { LOOP }"));
    BOOST_TEST(!hides("#define " + macro + "\n" + kFunction + "}"));
  }
  BOOST_TEST(hides("#define DIFF [Differentiable]\nDIFF float f(float x) { }"));
  BOOST_TEST(hides("#define A B\n#define B while\n" + kFunction + "A }"));
  BOOST_TEST(hides(kFunction + "LOOP }", {{"LOOP", "while"}}));
  BOOST_TEST(
      !hides("#define SQUARE(x) ((x) * (x))\n#define N 3\n" + kFunction + "return SQUARE(x) + N; }", {{"M", "4"}}));
}

BOOST_AUTO_TEST_CASE(conditions_in_braces) {
  BOOST_TEST(hides(kFunction + "\n#if A\nreturn x;\n#endif\n}"));
  BOOST_TEST(hides("#ifdef A\n" + kFunction + "\n#else\nfloat f(float x) {\n#endif\n}"));
  BOOST_TEST(!hides("#ifndef HEADER\n#define HEADER\n" + kFunction + "}\n#endif"));
  BOOST_TEST(!hides(kFunction + "\n#pragma unroll\n// issue #12\n}"));
}

BOOST_AUTO_TEST_SUITE_END()
