#include "compiler/emit/cleared_arrays.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(cleared_arrays_test)

using torch_slang::clear_arrays;
using torch_slang::rewritten;

namespace {

std::string list_of(int count, const std::string& value) {
  std::string list = value;
  for (int i = 1; i < count; ++i) list += ", " + value;
  return list;
}

}  // namespace

BOOST_AUTO_TEST_CASE(long_lists_of_zeros_are_cleared) {
  const std::string begin =
      "Pair_0 _S4 = { 0.0f, make_float3 (0.0f) };\nTSL_AT(0, 80); FixedArray<FixedArray<float, 3> , 300>  _S5 = {";
  for (const std::string value : {"_S4", "0.0f", "int(0)", "0U"}) {
    BOOST_TEST(rewritten(clear_arrays, begin + "\n#line 3\n" + list_of(300, value) + "\n};\nf(_S4);") ==
               begin + "}\n#line 3\n;\nf(_S4);");
  }
}

BOOST_AUTO_TEST_CASE(all_else_stays) {
  const std::string begin = "TSL_AT(0, 80); FixedArray<int, 300> a = {";
  for (const std::string& text : {
           begin + list_of(5, "0") + " };",
           begin + list_of(299, "0") + ", 1 };",
           begin + list_of(300, "f()") + " };",
           begin + list_of(300, "-0.0f") + " };",
           begin + list_of(300, "_S4") + " };",
           "float _S4 = 1.0f; " + begin + list_of(300, "_S4") + " };",
           "float _S4 = 0.0f; g(&_S4); " + begin + list_of(300, "_S4") + " };",
           "float _S4 = 0.0f; _S4 = x; " + begin + list_of(300, "_S4") + " };",
           "static const FixedArray<int, 300> a = { " + list_of(300, "0") + " };",
           begin + list_of(300, "0"),
           std::string("TSL_AT(0, 80); FixedArray<int, 300> a = b;"),
       }) {
    BOOST_TEST(rewritten(clear_arrays, text) == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
