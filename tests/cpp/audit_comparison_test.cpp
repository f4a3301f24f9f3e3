#include "audit/comparison.h"

#include <ATen/ops/full.h>

#include <boost/test/unit_test.hpp>

namespace torch_slang::audit {
namespace {

at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

}  // namespace

BOOST_AUTO_TEST_SUITE(audit_comparison_test)

BOOST_AUTO_TEST_CASE(rounding_is_seen_by_factors) {
  const double x = 0.1, y = 0.7, z = 1.3;
  const auto cancelled = [&](double s) { return number((s * x * y) * z - s * x * (y * z)); };
  BOOST_CHECK_GT(rounding_of(cancelled).item<double>(), 0);
  BOOST_CHECK_LT(rounding_of(cancelled).item<double>(), 1e-13);
  BOOST_CHECK_EQUAL(rounding_of([](double s) { return number(s * 4); }).item<double>(), 0);
}

BOOST_AUTO_TEST_CASE(an_error_is_no_rounding) {
  BOOST_CHECK_EQUAL(rounding_of([](double s) { return number(2 * s + 1); }).item<double>(), 0);
  BOOST_CHECK_EQUAL(rounding_of([](double s) { return number(2 * s + s * s); }).item<double>(), 0);
  BOOST_CHECK_EQUAL(rounding_of([](double s) { return number(s > 1 ? NAN : s); }).item<double>(), 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace torch_slang::audit
