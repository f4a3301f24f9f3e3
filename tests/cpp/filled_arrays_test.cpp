#include "compiler/emit/filled_arrays.h"

#include <boost/test/unit_test.hpp>

#include <string>

#include "rewritten.h"

BOOST_AUTO_TEST_SUITE(filled_arrays_test)

using torch_slang::fill_arrays;
using torch_slang::rewritten;

namespace {

std::string list_of(int count, const std::string& value) {
  std::string list = value;
  for (int i = 1; i < count; ++i) list += ", " + value;
  return list;
}

}  // namespace

BOOST_AUTO_TEST_CASE(long_lists_of_one_value_are_filled) {
  const std::string begin = "TSL_AT(0, 80); FixedArray<FixedArray<float, 3> , 66>  _S5 = ";
  for (const std::string value : {"_S4", "0.0f", "int ( 0 )"}) {
    BOOST_TEST(rewritten(fill_arrays, begin + "{\n#line 3\n" + list_of(66, value) + "\n};\nf();") ==
               begin + "tsl_filled<FixedArray < FixedArray < float , 3 > , 66 >>(" + value + ");\nf();");
  }
}

BOOST_AUTO_TEST_CASE(all_else_stays) {
  for (const std::string& text : {
           "TSL_AT(0, 80); FixedArray<int, 5> a = { " + list_of(5, "0") + " };",
           "TSL_AT(0, 80); FixedArray<int, 66> a = { " + list_of(65, "0") + ", 1 };",
           "TSL_AT(0, 80); FixedArray<int, 66> a = { " + list_of(66, "f()") + " };",
           "TSL_AT(0, 80); FixedArray<int, 66> a = { " + list_of(66, "x + 1") + " };",
           "static const FixedArray<int, 66> a = { " + list_of(66, "0") + " };",
           "TSL_AT(0, 80); FixedArray<int, 66> a = { " + list_of(66, "0"),
           std::string("TSL_AT(0, 80); FixedArray<int, 66> a = b;"),
       }) {
    BOOST_TEST(rewritten(fill_arrays, text) == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
