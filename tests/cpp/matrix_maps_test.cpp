#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "backend/cuda/matrix_maps.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(matrix_maps_test)

using namespace torch_slang;

namespace {

constexpr unsigned kHalf = 2;

// Of halves, with strides in elements; it begins at a multiple of 16 bytes.
TslView view(std::initializer_list<unsigned> sizes, std::initializer_list<long long> strides) {
  TslView made = {};
  made.data = reinterpret_cast<unsigned char*>(uintptr_t{4096});
  made.dimensionCount = static_cast<unsigned>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), made.sizes);
  std::transform(strides.begin(), strides.end(), made.strides, [](long long stride) { return stride * kHalf; });
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(marks_ask_for_maps) {
  const auto requests = matrix_map_requests({"block 288", "map 0 1 128 2", "map 2 2 64 2", "reads 1"});
  BOOST_REQUIRE(requests.size() == 2u);
  BOOST_TEST(requests[0].view == 0);
  BOOST_TEST(requests[0].depth_axis == 1);
  BOOST_TEST(requests[0].extent == 128u);
  BOOST_TEST(requests[0].bytes == 2u);
  BOOST_TEST(requests[1].depth_axis == MatrixMapRequest::kStored);
}

BOOST_AUTO_TEST_CASE(blocks_of_a_tile_are_its_last_digit) {
  BOOST_TEST(blocks_of_tile("slang::product", {"block 288", "kind 3686404", "tile 1282561"}) == 1);
  BOOST_TEST(blocks_of_tile("slang::product", {"kind 3686404", "tile 1281284"}) == 4);
  BOOST_TEST(blocks_of_tile("slang::sqr", {"reads 0"}) == 1);
}

void check_refused(const std::set<std::string>& marks, const std::string& message) {
  BOOST_CHECK_EXCEPTION(blocks_of_tile("slang::product", marks), CompileError, [&](const CompileError& error) {
    return std::string(error.what_without_backtrace()).find(message) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(tiles_of_two_shapes_are_refused) {
  check_refused({"tile 1281281", "tile 1282564"}, "128 x 128 and 128 x 256 by 4 blocks");
}

BOOST_AUTO_TEST_CASE(products_of_two_types_are_refused) {
  check_refused({"kind 3686404", "kind 811024", "tile 1281281"}, "of one type and precision");
}

BOOST_AUTO_TEST_CASE(a_view_that_is_on_both_sides_has_no_map) {
  BOOST_TEST(has_one_map_a_view(matrix_map_requests({"map 0 1 128 2", "map 1 0 128 2", "map 2 2 64 2"})));
  BOOST_TEST(!has_one_map_a_view(matrix_map_requests({"map 0 1 128 2", "map 0 0 128 2"})));
}

BOOST_AUTO_TEST_CASE(one_of_the_last_two_dimensions_is_contiguous) {
  BOOST_TEST(contiguous_axis(view({64, 32}, {32, 1}), kHalf) == 1);
  BOOST_TEST(contiguous_axis(view({64, 32}, {1, 64}), kHalf) == 0);
  BOOST_TEST(contiguous_axis(view({3, 64, 32}, {2048, 32, 1}), kHalf) == 1);
  BOOST_TEST(contiguous_axis(view({3, 64, 32}, {0, 1, 64}), kHalf) == 0);  // one matrix for the whole batch
}

BOOST_AUTO_TEST_CASE(rows_begin_at_multiples_of_16_bytes) {
  BOOST_TEST(contiguous_axis(view({64, 33}, {33, 1}), kHalf) == -1);
  BOOST_TEST(contiguous_axis(view({64, 33}, {40, 1}), kHalf) == 1);
  BOOST_TEST(contiguous_axis(view({2, 64, 32}, {2052, 32, 1}), kHalf) == -1);
  TslView beside = view({64, 32}, {32, 1});
  beside.data += 8;
  BOOST_TEST(contiguous_axis(beside, kHalf) == -1);
}

BOOST_AUTO_TEST_CASE(what_the_hardware_does_not_take_has_no_map) {
  BOOST_TEST(contiguous_axis(view({64, 32}, {64, 2}), kHalf) == -1);   // elements apart
  BOOST_TEST(contiguous_axis(view({64, 32}, {0, 1}), kHalf) == -1);    // one row for all
  BOOST_TEST(contiguous_axis(view({64, 32}, {-32, 1}), kHalf) == -1);  // backwards
}

BOOST_AUTO_TEST_CASE(strides_of_one_element_mean_nothing) {
  BOOST_TEST(contiguous_axis(view({1, 32}, {7, 1}), kHalf) == 1);
  BOOST_TEST(contiguous_axis(view({32, 1}, {1, 5}), kHalf) == 0);
  BOOST_TEST(contiguous_axis(view({1, 64, 32}, {5, 32, 1}), kHalf) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
