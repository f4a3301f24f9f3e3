// Constant expressions are computed as Slang computes them.
#include "compiler/constants.h"

#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>
#include <vector>

using torch_slang::Constant;
using torch_slang::constant_of;
using Kind = Constant::Kind;

namespace {

const std::string kSource =
    "namespace n { static const int kCount = 3; }\n"
    "static const double kThird = 1.0lf / kCount;  // = 4\n"
    "static const int kLoop = kLoop + 1; const int kTwice = 1; void f() { const int kTwice = 2; }\n"
    "int kVariable = 4;\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(constants)

BOOST_AUTO_TEST_CASE(whole_numbers) {
  const std::vector<std::pair<std::string, int64_t>> known = {
      {"3", 3},          {"0x1F", 31},           {"7u", 7},
      {"5ll", 5},        {"-7 / 2", -3},         {"2*3-10", -4},
      {"- -3", 3},       {"2 - 3 - 4", -5},      {"24 / 4 / 3", 2},
      {"2 + 3 * 4", 14}, {"(2 + 3) * 4", 20},    {"int(2.7)", 2},
      {"int(-2.7)", -2}, {"uint8_t(255)", 255},  {"(int) 2.5f * 2", 4},
      {"{}", 0},         {"kCount * kCount", 9}, {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [text, value] : known) {
    const auto constant = constant_of(text, kSource);
    BOOST_TEST_CONTEXT(text) {
      BOOST_REQUIRE(constant.has_value());
      BOOST_TEST((constant->kind == Kind::Whole));
      BOOST_TEST(constant->whole == value);
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_in_their_precision) {
  const std::vector<std::pair<std::string, double>> known = {
      {"0.1", 0.1f},
      {".5", 0.5},
      {"2.", 2},
      {"1e-3", 1e-3f},
      {"-1.5e+2f", -150},
      {"0.1lf", 0.1},
      {"0.1L", 0.1},
      {"double(0.1)", 0.1f},
      {"double(0.1lf)", 0.1},
      {"__realCast<double>(0.25)", 0.25},
      {"(float)0.1lf", 0.1f},
      {"1.0 / 3", 1.0f / 3.0f},
      {"1.0 / double(3)", 1.0 / 3.0},
      {"kThird", 1.0 / 3.0},
      {"half(0.1)", 0.0999755859375},
      {"2f", 2},
  };
  for (const auto& [text, value] : known) {
    const auto constant = constant_of(text, kSource);
    BOOST_TEST_CONTEXT(text) {
      BOOST_REQUIRE(constant.has_value());
      BOOST_TEST((constant->kind != Kind::Whole));
      BOOST_TEST(constant->number == value);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_constant) {
  for (const std::string text : {"",
                                 "x",
                                 "1 +",
                                 "(1",
                                 "1)",
                                 "1 / 0",
                                 "1.0 / 0",
                                 "kVariable",
                                 "kTwice",
                                 "kLoop",
                                 "uint8_t(256)",
                                 "uint(-1)",
                                 "int(1e10)",
                                 "9223372036854775808",
                                 "-9223372036854775807 - 2",
                                 "sqrt(2.0)",
                                 "float2(1, 2)",
                                 "{1, 2}",
                                 "1 << 2",
                                 "a ? 1 : 2",
                                 "0.1q",
                                 "1, 2",
                                 "__realCast<float2>(1)",
                                 "Mode.Fast"}) {
    BOOST_TEST_CONTEXT(text) { BOOST_TEST(!constant_of(text, kSource).has_value()); }
  }
  BOOST_TEST(!constant_of(std::string(100000, '('), "").has_value());
  BOOST_TEST(!constant_of(std::string(100000, '-') + "1", "").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
