#include "compiler/source/visible_names.h"

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(visible_names_test)

using torch_slang::SourceCode;
using torch_slang::VisibleNames;

BOOST_AUTO_TEST_CASE(all_is_public_where_nothing_says_otherwise) {
  const SourceCode source("float f(float x) { return x; }");
  BOOST_TEST(VisibleNames(source).is_public("f", 1));
}

BOOST_AUTO_TEST_CASE(elsewhere_only_what_is_marked) {
  for (const std::string first :
       {"module m;", "implementing m;", "public int n;", "internal int n;", "private int n;"}) {
    const SourceCode source(first + "\nfloat f(float x) {}\npublic [Differentiable] float g<T>(float x) {}");
    BOOST_TEST(!VisibleNames(source).is_public("f", 2), first);
    BOOST_TEST(VisibleNames(source).is_public("g", 3), first);
  }
}

BOOST_AUTO_TEST_SUITE_END()
