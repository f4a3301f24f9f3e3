// The loops around elementwise functions, from text in the shape that Slang emits: compiled and run on the host, and compiled
// for sm_90 where there is an NVRTC.
#include <boost/test/unit_test.hpp>

#include <c10/util/Half.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/backend.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "device_compilers/nvrtc/nvrtc_compiler.h"
#include "foreign/nvrtc_library.h"
#include "prelude/abi.h"
#include "source/source_text.h"

BOOST_AUTO_TEST_SUITE(map_test)

using namespace torch_slang;

namespace {

using Access = MapView::Access;

struct OwnCacheFolder {
  TemporaryFolder folder{"torch_slang_map_test"};
  OwnCacheFolder() { ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1); }
};
BOOST_TEST_GLOBAL_FIXTURE(OwnCacheFolder);

// y = a * x * x + b, all of one component, and the gradients of a (view 4) and x (view 5) for that of y (view 3).
constexpr const char* kForward =
    "__device__ void entry() {\n"
    "  float x = tsl_input<float>((int(0)), (int(0)));\n"
    "  tsl_output<float>((int(2)), (int(0)), tsl_input<float>((int(1)), (int(0))) * x * x);\n"
    "}\n";
constexpr const char* kBackward =
    "__device__ void entry() {\n"
    "  float x = tsl_input<float>((int(0)), (int(0)));\n"
    "  float d = tsl_input<float>((int(3)), (int(0)));\n"
    "  tsl_output<float>((int(4)), (int(0)), d * x * x);\n"
    "  tsl_output<float>((int(5)), (int(0)), d * 2.0f * tsl_input<float>((int(1)), (int(0))) * x);\n"
    "}\n";

struct Args {
  TslHeader header;
  TslView views[6];
  unsigned long long slots[1 + kTslGeneratedWords];
  unsigned dims[kTslMapDims];
};

KernelSource source_of(const char* body, MapLoop loop) {
  KernelSource source;
  source.op = "slang::elementwise";
  source.text.entry = "entry";
  source.text.body = body;
  source.view_count = 6;
  source.slot_count = 1 + kTslGeneratedWords;
  source.dim_count = kTslMapDims;
  source.make_view = "return tsl::present_view(args, k);";
  source.independent_views = true;
  source.map = std::move(loop);
  return source;
}

MapView view(int number, Access access, ElementType type = ElementType::Float32) {
  return {number, -1, type, 1, access};
}

Args args_of(const std::vector<void*>& data, uint64_t total, std::vector<unsigned> sizes = {}) {
  Args args{};
  for (size_t i = 0; i < data.size(); ++i) args.views[i].data = static_cast<unsigned char*>(data[i]);
  args.dims[kTslMapTotal] = static_cast<unsigned>(total);
  args.dims[kTslMapTotal + 1] = static_cast<unsigned>(total >> 32);
  args.dims[kTslMapRank] = static_cast<unsigned>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), args.dims + kTslMapSizes);
  return args;
}

void launch(const Kernel& kernel, Args& args, uint64_t total) {
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>((total + kMapElements - 1) / kMapElements);
  std::copy_n(shape.grid, 3, args.header.grid);
  std::copy_n(shape.block, 3, args.header.block);
  kernel.launch(shape, &args, sizeof args);
}

std::vector<float> ramp(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = 0.5f + static_cast<float>(i % 97) / 97;
  return values;
}

BOOST_AUTO_TEST_CASE(dense_elements_and_a_scalar_from_memory_or_from_slots) {
  const auto kernel = cpu_backend().load(
      source_of(kForward,
                {{view(0, Access::Dense), {1, 0, ElementType::Float32, 1, Access::Scalar}}, {view(2, Access::Dense)}}),
      c10::kCPU);
  for (const size_t n : {size_t{1}, size_t{31}, size_t{kMapElements}, size_t{3 * kMapElements + 5}}) {
    std::vector<float> x = ramp(n), y(n, -1), a = {3};
    for (const bool in_slots : {false, true}) {
      Args args = args_of({x.data(), in_slots ? nullptr : a.data(), y.data()}, n);
      std::memcpy(&args.slots[0], a.data(), sizeof(float));
      std::fill(y.begin(), y.end(), -1.0f);
      launch(*kernel, args, n);
      for (size_t i = 0; i < n; ++i) BOOST_REQUIRE_CLOSE(y[i], 3 * x[i] * x[i], 1e-4);
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_of_another_type_is_converted) {
  const auto kernel = cpu_backend().load(
      source_of(kForward, {{view(0, Access::Dense, ElementType::Float16), view(1, Access::Scalar, ElementType::Int64)},
                           {view(2, Access::Dense, ElementType::Float64)}}),
      c10::kCPU);
  std::vector<c10::Half> x = {1.5f, -2.0f, 0.25f};
  std::vector<int64_t> a = {7};
  std::vector<double> y(3);
  Args args = args_of({x.data(), a.data(), y.data()}, 3);
  launch(*kernel, args, 3);
  BOOST_TEST(y == (std::vector<double>{15.75, 28.0, 0.4375}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(strides_of_any_kind) {
  const auto kernel = cpu_backend().load(
      source_of(kForward, {{view(0, Access::Strided), view(1, Access::Row)}, {view(2, Access::Dense)}, true}),
      c10::kCPU);
  constexpr unsigned kRows = 37, kColumns = 211;  // x is transposed, a is one row for all
  std::vector<float> x = ramp(kRows * kColumns), a = ramp(kColumns), y(kRows * kColumns);
  Args args = args_of({x.data(), a.data(), y.data()}, y.size(), {kRows, kColumns});
  args.views[0].strides[0] = sizeof(float);
  args.views[0].strides[1] = kRows * sizeof(float);
  args.views[1].strides[1] = sizeof(float);
  launch(*kernel, args, y.size());
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned c = 0; c < kColumns; ++c) {
      const float value = x[c * kRows + r];
      BOOST_REQUIRE_CLOSE(y[r * kColumns + c], a[c] * value * value, 1e-4);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_that_share_one_element) {
  const auto kernel = cpu_backend().load(
      source_of(kForward, {{view(0, Access::Row), view(1, Access::Column)}, {view(2, Access::Dense)}, true}),
      c10::kCPU);
  constexpr unsigned kRows = 93, kColumns = 111;  // blocks begin within rows
  std::vector<float> x = ramp(kRows * kColumns), a = ramp(kRows), y(kRows * kColumns);
  Args args = args_of({x.data(), a.data(), y.data()}, y.size(), {kRows, kColumns});
  args.views[0].strides[0] = kColumns * sizeof(float);
  args.views[0].strides[1] = sizeof(float);
  args.views[1].strides[0] = sizeof(float);
  launch(*kernel, args, y.size());
  for (unsigned i = 0; i < y.size(); ++i) BOOST_REQUIRE_CLOSE(y[i], a[i / kColumns] * x[i] * x[i], 1e-4);
}

BOOST_AUTO_TEST_CASE(sums_have_a_row_for_each_block) {
  const auto kernel = cpu_backend().load(
      source_of(kBackward, {{view(0, Access::Dense), view(1, Access::Scalar), view(3, Access::Dense)},
                            {view(4, Access::Summed), view(5, Access::Dense)}}),
      c10::kCPU);
  const size_t n = 5 * kMapElements + 17;
  std::vector<float> x = ramp(n), a = {2}, d = ramp(n), sums(6, -1), gx(n);
  Args args = args_of({x.data(), a.data(), nullptr, d.data(), sums.data(), gx.data()}, n);
  launch(*kernel, args, n);
  double expected = 0;
  for (size_t i = 0; i < n; ++i) {
    expected += double{d[i]} * x[i] * x[i];
    BOOST_REQUIRE_CLOSE(gx[i], 4 * d[i] * x[i], 1e-4);
  }
  BOOST_TEST(std::accumulate(sums.begin(), sums.end(), 0.0) == expected, boost::test_tools::tolerance(1e-7));
  const std::vector<float> first = sums;
  launch(*kernel, args, n);
  BOOST_TEST(sums == first, boost::test_tools::per_element());
}

MapView made(int number, Access access) { return {number, 0, ElementType::Float32, 1, access}; }

BOOST_AUTO_TEST_CASE(elements_are_made_of_their_numbers) {
  constexpr unsigned kRows = 93, kColumns = 111, kAll = kRows * kColumns;
  std::vector<float> x(kColumns, 1),
      y(2 * kAll);  // two samples; the second one is made with the same numbers as the first
  Args args = args_of({x.data(), nullptr, y.data()}, y.size(), {2 * kRows, kColumns});
  args.views[0].strides[1] = sizeof(float);
  const auto run = [&](Access access, const std::vector<uint64_t>& slots) {
    std::copy(slots.begin(), slots.end(), args.slots);
    for (const bool by_rows : {false, true}) {
      const MapView one = view(0, by_rows ? Access::Row : Access::Scalar);
      const auto kernel = cpu_backend().load(
          source_of(kForward, {{one, made(1, access)}, {view(2, Access::Dense)}, by_rows}), c10::kCPU);
      std::fill(y.begin(), y.end(), -1.0f);
      launch(*kernel, args, y.size());
      BOOST_TEST(std::equal(y.begin(), y.begin() + kAll, y.begin() + kAll));
      if (access != Access::Place) continue;
      for (unsigned i = 0; i < kAll; ++i) BOOST_REQUIRE_EQUAL(y[i], 5 + 2.0f * static_cast<float>(i / kColumns));
    }
  };
  run(Access::Place, {kAll, kColumns, kRows, 5, 2});
  run(Access::Hash, {kAll, 0, 0, 0});
  BOOST_TEST(y[0] == static_cast<float>(3232319850u));  // the published hash of 0 and 1
  BOOST_TEST(y[1] == static_cast<float>(663891101u));
  run(Access::Random, {kAll, 0, 0, 0, 0x4040000000000000u});  // from 0 to 3
  BOOST_TEST(y[1] == static_cast<float>(663891101u & 0x7fffffu) * 0x1p-23f * 3);
}

bool has_nvrtc() {
  try {
    find_nvrtc();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

boost::test_tools::assertion_result nvrtc_is_there(boost::unit_test::test_unit_id) { return has_nvrtc(); }

// Elements that fill vectors are moved as vectors.
BOOST_AUTO_TEST_CASE(compiles_for_a_gpu, *boost::unit_test::precondition(nvrtc_is_there)) {
  const auto ptx = [](const char* body, MapLoop loop) {
    return compile_for_architecture(source_of(body, std::move(loop)), "compute_90").image;
  };
  const auto has = [](const std::string& text, const char* vector) { return text.find(vector) != std::string::npos; };
  const std::string dense = ptx(
      kForward,
      {{view(0, Access::Dense), {1, 0, ElementType::Float32, 1, Access::Scalar}}, {view(2, Access::Dense)}, false, 4});
  BOOST_TEST(has(dense, "ld.global.nc.v4"));
  BOOST_TEST(has(dense, "st.global.v4"));
  const std::string halves =
      ptx(kForward, {{view(0, Access::Dense, ElementType::Float16), view(1, Access::Scalar, ElementType::BFloat16)},
                     {view(2, Access::Dense, ElementType::Float16)},
                     false,
                     8});
  BOOST_TEST(has(halves, "ld.global.nc.v4"));
  const std::string rows =
      ptx(kForward, {{view(0, Access::Row), view(1, Access::Column)}, {view(2, Access::Dense)}, true, 4});
  BOOST_TEST(has(rows, "ld.global.nc.v4"));
  BOOST_TEST(has(rows, "st.global.v4"));
  const std::string parts = ptx(kBackward, {{view(0, Access::Row), view(1, Access::Strided), view(3, Access::Row)},
                                            {view(4, Access::RowSum), view(5, Access::ColumnSum)},
                                            true,
                                            1});
  BOOST_TEST(has(parts, "shfl.sync"));
  BOOST_TEST(!has(parts, ".v4"));
  const std::string sums = ptx(kBackward, {{view(0, Access::Dense), view(1, Access::Scalar), view(3, Access::Dense)},
                                           {view(4, Access::Summed), view(5, Access::Dense)},
                                           false,
                                           4});
  BOOST_TEST(has(sums, "shfl.sync"));
  BOOST_TEST(!has(sums, "atom."));
  BOOST_TEST(!has(sums, "red.global"));
}

BOOST_AUTO_TEST_CASE(elements_that_are_made_compile_for_a_gpu, *boost::unit_test::precondition(nvrtc_is_there)) {
  const auto ptx = [](const char* body, MapLoop loop) {
    return compile_for_architecture(source_of(body, std::move(loop)), "compute_90").image;
  };
  for (const Access access : {Access::Place, Access::Hash, Access::Random}) {
    const std::string dense =
        ptx(kForward, {{view(0, Access::Dense), made(1, access)}, {view(2, Access::Dense)}, false, 4});
    const std::string rows =
        ptx(kForward, {{view(0, Access::Row), made(1, access)}, {view(2, Access::Dense)}, true, 4});
    const std::string parts = ptx(kBackward, {{view(0, Access::Row), made(1, access), view(3, Access::Column)},
                                              {view(4, Access::RowSum), view(5, Access::ColumnSum)},
                                              true,
                                              2});
    for (const std::string& text : {dense, rows, parts}) {
      BOOST_TEST(text.find(".entry tsl_entry") != std::string::npos);
      BOOST_TEST(text.find(".local") ==
                 std::string::npos);  // neither the arguments nor the elements are copied to memory
    }
    BOOST_TEST(dense.find("ld.global.nc.v4") != std::string::npos);
    BOOST_TEST(rows.find("st.global.v4") != std::string::npos);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
