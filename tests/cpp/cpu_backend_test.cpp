// Kernels on the CPU from device text in the shape that Slang emits. Each test compiles for real, into a cache of its own.
// Under sanitizers set TORCH_SLANG_CXXFLAGS="-fsanitize=address,undefined" (or thread), so that kernels are watched too, and
// for the thread sanitizer OMP_NUM_THREADS=1: it does not know how OpenMP's threads wait for each other.
#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_kernel.h"
#include "cache/cache.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "prelude/abi.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(cpu_backend_test)

using namespace torch_slang;

namespace {

const c10::Device kCpu(c10::kCPU);

struct OwnCacheFolder {
  TemporaryFolder folder{"torch_slang_cpu_test"};
  OwnCacheFolder() { ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1); }
};
BOOST_TEST_GLOBAL_FIXTURE(OwnCacheFolder);

class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// All kernels here have three one-dimensional views (0 and 1 of floats or ints, 2 an absent one) and dims[0], their size.
struct Args {
  TslHeader header;
  TslView views[3];
  unsigned long long slots[4];
  unsigned dims[1];
};

KernelSource source_of(const std::string& entry, const std::string& body) {
  KernelSource source;
  source.op = "slang::" + entry;
  source.text.entry = entry;
  source.text.body = body;
  source.view_count = 3;
  source.slot_count = 4;
  source.dim_count = 1;
  source.make_view =
      "switch (k) {\n"
      "  case 0: return tsl::readonly(tsl::aligned(tsl::dense_view<4>(args, 0, args.dims[0])));\n"
      "  case 1: return tsl::aligned(tsl::dense_view<4>(args, 1, args.dims[0]));\n"
      "  default: return tsl::absent(tsl::present_view(args, k));\n}";
  source.independent_views = true;
  return source;
}

KernelSource meeting_source_of(const std::string& entry, const std::string& body) {
  KernelSource source = source_of(entry, body);
  source.text.barriers = source.text.waves = true;
  return source;
}

std::shared_ptr<const CpuKernel> load(const KernelSource& source) {
  return std::dynamic_pointer_cast<const CpuKernel>(cpu_backend().load(source, kCpu));
}

template <class T>
TslView view_of(std::vector<T>& values) {
  TslView view{};
  view.data = reinterpret_cast<unsigned char*>(values.data());
  view.strides[0] = sizeof(T);
  view.sizes[0] = static_cast<unsigned>(values.size());
  view.dimensionCount = 1;
  return view;
}

enum class Pool { Used, Unused };

template <class T>
void launch(const CpuKernel& kernel, LaunchShape shape, std::vector<T>& x, std::vector<T>& y, Pool pool = Pool::Unused,
            size_t size = 0) {
  Args args{};
  std::copy_n(shape.grid, 3, args.header.grid);
  std::copy_n(shape.block, 3, args.header.block);
  args.views[0] = view_of(x);
  args.views[1] = view_of(y);
  args.dims[0] = static_cast<unsigned>(size != 0 ? size : y.size());
  if (pool == Pool::Used) {
    kernel.launch(shape, &args, sizeof args);
  } else {
    kernel.launch_serially(shape, &args, sizeof args);
  }
}

LaunchShape blocks_of(uint32_t threads, size_t total) {
  LaunchShape shape;
  shape.block[0] = threads;
  shape.grid[0] = static_cast<uint32_t>((total + threads - 1) / threads);
  return shape;
}

template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "(no error)";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const char* const kSquare = R"(
struct DiffTensorView_0
{
    TensorView primal_0;
    TensorView diff_0;
};

__device__ void DiffTensorView_store_0(DiffTensorView_0 * this_0, uint i_0, float v_0)
{
    (this_0->primal_0).store<float>((i_0), (v_0));
    return;
}

__device__ float DiffTensorView_load_0(DiffTensorView_0 * this_1, uint i_1)
{
    float _S1 = ((this_1->primal_0).load<float>((i_1)));
    return _S1;
}

__device__ uint DiffTensorView_size_0(DiffTensorView_0 * this_2, uint i_2)
{
    uint _S2 = ((this_2->primal_0).size_of((i_2)));
    return _S2;
}

#line 5 "/somewhere/sqr.slang"
__device__ void sqr_0(DiffTensorView_0 * x_0, DiffTensorView_0 * y_0)
{
    uint _S3 = (((threadIdx)) + ((blockIdx)) * ((blockDim))).x;
    uint _S4 = DiffTensorView_size_0(x_0, 0U);
    if(_S3 >= _S4)
    {
        return;
    }
    float _S5 = DiffTensorView_load_0(x_0, _S3);
    float _S6 = DiffTensorView_load_0(x_0, _S3);
    DiffTensorView_store_0(y_0, _S3, _S5 * _S6);
    return;
}

__device__ void sqr()
{
    DiffTensorView_0 x_1;
    (&x_1)->primal_0 = (tsl_view((int(0))));
    (&x_1)->diff_0 = (tsl_view((int(2))));
    DiffTensorView_0 y_1;
    (&y_1)->primal_0 = (tsl_view((int(1))));
    (&y_1)->diff_0 = (tsl_view((int(2))));
    sqr_0(&x_1, &y_1);
    return;
}
)";

KernelSource square() {
  KernelSource source = source_of("sqr", kSquare);
  source.thread_bounds = {"args.dims[0]", "1u", "1u"};
  return source;
}

// The thread's index in the launch, x fastest, as `i`, and what the kernels do with it.
std::string kernel_text(const std::string& entry, const std::string& statements) {
  return "__device__ void " + entry + "()\n{\n    TensorView x = tsl_view(0); TensorView y = tsl_view(1);\n" +
         "    uint i = (((threadIdx)) + ((blockIdx)) * ((blockDim))).x;\n" + statements + "}\n";
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_element_is_computed_whatever_the_block_and_no_other_is_touched) {
  for (bool bounded : {true, false}) {
    KernelSource source = square();
    if (!bounded) source.thread_bounds.clear();
    auto kernel = load(source);
    for (size_t count : {1, 31, 512, 1000, 4097}) {
      for (uint32_t block : {1u, 7u, 32u, 512u, 1024u}) {
        auto x = counting(count);
        std::vector<float> y(count + 64, -1.0f);
        std::vector<float> expected = y;
        for (size_t i = 0; i < count; ++i) expected[i] = x[i] * x[i];
        launch(*kernel, blocks_of(block, count), x, y, Pool::Unused, count);
        BOOST_TEST(y == expected);
      }
    }
  }
}

// Vector loops: the full blocks' and, where the machine has masked stores, the others'.
// Checks of indices that the kernel's guard bounds do not change that.
BOOST_AUTO_TEST_CASE(independent_threads_become_a_vector_loop) {
  KernelSource pairs = source_of("pairs", kernel_text("pairs", R"(
    if(i >= y.size_of(0))
    {
        return;
    }
    y.store<float>((i), (x.load<float>((make_uint2(i, 0U))) * x.load<float>((make_uint2(i, 1U)))));
)"));
  pairs.make_view =
      "return k == 0 ? tsl::readonly(tsl::aligned(tsl::dense_view<4>(args, 0, args.dims[0], 2u))) : "
      "tsl::aligned(tsl::dense_view<4>(args, 1, args.dims[0]));";
  pairs.thread_bounds = {"args.dims[0]", "1u", "1u"};
  for (KernelSource source : {square(), pairs}) {
    for (Checks checks : {Checks::None, Checks::Bounds}) {
      TemporaryFolder folder;
      std::string report = folder.file("vectorised");
      source.op = "slang::" + source.text.entry + "_reported";
      source.checks = checks;
      ScopedEnvironment flags("TORCH_SLANG_CXXFLAGS", "-fopt-info-vec-optimized=" + report);
      std::string message = message_of([&] { load(source); });
      if (contains(message, "unknown argument")) return;  // another compiler than g++
      auto text = read_file(report);
      BOOST_REQUIRE_MESSAGE(text, message);
      BOOST_TEST(contains(*text, "host_loop.h"), source.op << " with checks " << static_cast<int>(checks) << *text);
    }
  }
}

BOOST_AUTO_TEST_CASE(grids_and_blocks_of_three_dimensions_reach_every_thread_once) {
  auto kernel = load(source_of("cover", kernel_text("cover", R"(
    uint3 at = threadIdx + blockIdx * blockDim;
    uint3 all = gridDim * blockDim;
    uint place = (at.z * all.y + at.y) * all.x + at.x;
    y.store<int>(place, y.load<int>(place) + int(place));
)")));
  for (LaunchShape shape : {LaunchShape{{5, 4, 3}, {8, 2, 3}}, LaunchShape{{1, 70, 2}, {1, 1, 64}},
                            LaunchShape{{33, 1, 1}, {16, 16, 1}}, LaunchShape{{2, 3, 65}, {3, 5, 1}}}) {
    size_t count = 1;
    for (int axis = 0; axis < 3; ++axis) count *= shape.grid[axis] * shape.block[axis];
    std::vector<int> x(1);
    std::vector<int> y(count);
    std::vector<int> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    launch(*kernel, shape, x, y, Pool::Used);
    BOOST_TEST(y == expected);
  }
}

BOOST_AUTO_TEST_CASE(atomic_additions_of_all_threads_add_up) {
  auto kernel = load(source_of("count", kernel_text("count", R"(
    atomicAdd(y.data_ptr_at<float>(i % 4u), 1.0f);
)")));
  std::vector<float> x(4);
  std::vector<float> y(4);
  launch(*kernel, blocks_of(256, 1 << 20), x, y, Pool::Used);
  for (float sum : y) BOOST_TEST(sum == static_cast<float>(1 << 18));
}

BOOST_AUTO_TEST_CASE(os_threads_may_launch_one_kernel_at_once) {
  auto kernel = load(source_of("count", kernel_text("count", R"(
    atomicAdd(y.data_ptr_at<int>(i % 4u), 1);
)")));
  std::vector<int> x(4);
  std::vector<int> y(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { launch(*kernel, blocks_of(64, 4096), x, y); });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(y == std::vector<int>(4, 4096), boost::test_tools::per_element());
}

namespace {

// A sum of a block's values through group-shared memory, as the compiler rewrites `groupshared float sh[N]`.
KernelSource block_sum(int size) {
  std::string n = std::to_string(size);
  KernelSource source = meeting_source_of("block_sum",
                                          "#define sh_0 (tsl_var_sh_0())\n"
                                          "__device__ FixedArray<float, " +
                                              n + ">& tsl_var_sh_0() { TSL_SHARED FixedArray<float, " + n +
                                              "> v; return v; }\n" + kernel_text("block_sum", R"(
    uint t = threadIdx.x;
    (*&sh_0)[t] = i < x.size_of(0) ? x.load<float>(i) : 0.0f;
    __syncthreads();
    for (uint half = blockDim.x / 2U; half > 0U; half /= 2U)
    {
        if(t < half)
        {
            (*&sh_0)[t] = (*&sh_0)[t] + (*&sh_0)[t + half];
        }
        __syncthreads();
    }
    if(t == 0U)
    {
        y.store<float>(blockIdx.x, (*&sh_0)[0U]);
    }
)"));
  source.make_view = "return tsl::present_view(args, k);";
  return source;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_reduce_through_group_shared_memory) {
  auto kernel = load(block_sum(256));
  for (uint32_t block : {32u, 128u, 256u}) {
    auto x = counting(100 * block);
    std::vector<float> y(100);
    launch(*kernel, blocks_of(block, x.size()), x, y, Pool::Used);
    for (size_t b = 0; b < y.size(); ++b) {
      BOOST_TEST(y[b] == std::accumulate(x.begin() + b * block, x.begin() + (b + 1) * block, 0.0f));
    }
  }
}

BOOST_AUTO_TEST_CASE(equally_named_shared_memory_of_two_kernels_is_not_the_same) {
  auto small = load(block_sum(64));
  auto large = load(block_sum(1024));
  auto x = counting(1024);
  std::vector<float> y(1);
  for (int round = 0; round < 2; ++round) {
    launch(*small, blocks_of(64, 64), x, y);
    BOOST_TEST(y[0] == 64.0f * 65 / 2);
    launch(*large, blocks_of(1024, 1024), x, y);
    BOOST_TEST(y[0] == 1024.0f * 1025 / 2);
  }
}

BOOST_AUTO_TEST_CASE(shared_memory_may_be_larger_than_a_gpus) {
  auto kernel = load(block_sum(1 << 20));
  auto x = counting(256);
  std::vector<float> y(1);
  launch(*kernel, blocks_of(256, 256), x, y);
  BOOST_TEST(y[0] == 256.0f * 257 / 2);
}

BOOST_AUTO_TEST_CASE(threads_may_leave_before_a_barrier) {
  auto kernel = load(meeting_source_of(
      "leave",
      "#define sh_0 (tsl_var_sh_0())\n"
      "__device__ FixedArray<int, 128>& tsl_var_sh_0() { TSL_SHARED FixedArray<int, 128> v; return v; }\n" +
          kernel_text("leave", R"(
    if(i >= y.size_of(0))
    {
        return;
    }
    (*&sh_0)[threadIdx.x] = int(i);
    __syncthreads();
    y.store<int>(i, (*&sh_0)[(threadIdx.x + 1U) % 100U]);
)")));
  std::vector<int> x(100);
  std::vector<int> y(100);
  launch(*kernel, blocks_of(128, 100), x, y);
  for (int i = 0; i < 100; ++i) BOOST_TEST(y[i] == (i + 1) % 100);
}

// if (i % 3 == 0) sum over those lanes; else if (i < n) sum over these; then all that are left meet again.
BOOST_AUTO_TEST_CASE(divergent_lanes_sum_among_themselves_and_meet_again) {
  auto kernel = load(meeting_source_of("divergent", kernel_text("divergent", R"(
    uint _S1 = __ballot_sync(_getActiveMask(), (i < y.size_of(0)));
    if(i >= y.size_of(0))
    {
        return;
    }
    bool _S2 = i % 3U == 0U;
    uint _S3 = __ballot_sync(_S1, _S2);
    uint _S4 = __ballot_sync(_S1, !_S2);
    int sum_0;
    if(_S2)
    {
        sum_0 = _waveSum(_S3, 1);
        __ballot_sync(_S1, true);
    }
    else
    {
        sum_0 = _waveSum(_S4, 100);
        __ballot_sync(_S1, true);
    }
    y.store<int>(i, _waveSum(_S1, 10000) + sum_0);
)")));
  const int count = 32 + 20;
  std::vector<int> x(count);
  std::vector<int> y(count);
  launch(*kernel, blocks_of(64, count), x, y);
  for (int i = 0; i < count; ++i) {
    int first = i / 32 * 32;
    int lanes = std::min(32, count - first);
    int thirds = 0;
    for (int k = first; k < first + lanes; ++k) thirds += k % 3 == 0;
    BOOST_TEST(y[i] == 10000 * lanes + (i % 3 == 0 ? thirds : 100 * (lanes - thirds)));
  }
}

BOOST_AUTO_TEST_CASE(shuffles_read_other_lanes) {
  auto kernel = load(meeting_source_of("shuffle", kernel_text("shuffle", R"(
    int a = __shfl_xor_sync(0xffffffffU, int(i), 1);
    int b = __shfl_down_sync(0xffffffffU, int(i), 3U);
    int c = __shfl_sync(0xffffffffU, int(i), 5);
    y.store<int>(i, a + 1000 * b + 1000000 * c);
)")));
  std::vector<int> x(64);
  std::vector<int> y(64);
  launch(*kernel, blocks_of(64, 64), x, y);
  for (int i = 0; i < 64; ++i) {
    int first = i / 32 * 32;
    BOOST_TEST(y[i] == (i ^ 1) + 1000 * (i % 32 + 3 < 32 ? i + 3 : i) + 1000000 * (first + 5));
  }
}

BOOST_AUTO_TEST_CASE(threads_that_wait_forever_are_a_launch_error_that_names_the_op) {
  auto kernel = load(meeting_source_of("stuck", kernel_text("stuck", R"(
    if(i == 300U)
    {
        _waveSum(0xffffffffU, 1);
    }
    __syncthreads();
    y.store<int>(i, 1);
)")));
  for (Pool pool : {Pool::Unused, Pool::Used}) {
    std::vector<int> x(512);
    std::vector<int> y(512);
    std::string message = message_of([&] { launch(*kernel, blocks_of(64, 512), x, y, pool); });
    BOOST_TEST(contains(message, "slang::stuck: block (4, 0, 0) of a grid [8, 1, 1] of blocks [64, 1, 1] cannot end: "),
               message);
    BOOST_TEST(contains(message, "1 in wave operations, 63 at a barrier; thread (44, 0, 0)"), message);
  }
}

BOOST_AUTO_TEST_CASE(a_compiler_that_fails_shows_the_users_file_and_line) {
  KernelSource source =
      source_of("broken", "#line 7 \"/somewhere/broken.slang\"\n" + kernel_text("broken", "    undeclared(i);\n"));
  source.text.files = {"/somewhere/broken.slang"};
  std::string message = message_of([&] { load(source); });
  BOOST_TEST(contains(message, "slang::broken: /somewhere/broken.slang does not compile for the CPU: "), message);
  BOOST_TEST(contains(message, "/somewhere/broken.slang:11:"), message);
  BOOST_TEST(contains(message, "undeclared"), message);
  BOOST_CHECK_THROW(load(source), CompileError);
}

BOOST_AUTO_TEST_CASE(a_machine_without_a_compiler_is_told_what_to_do) {
  KernelSource source = square();
  {
    ScopedEnvironment path("PATH", "/nonexistent");
    ScopedEnvironment cxx("CXX", "");
    ScopedEnvironment own("TORCH_SLANG_CXX", "");
    std::string message = message_of([&] { load(source); });
    BOOST_TEST(contains(message, "slang::sqr: cannot be compiled for the CPU: there is no C++ compiler here"), message);
    BOOST_TEST(contains(message, "set TORCH_SLANG_CXX"), message);
  }
  {
    ScopedEnvironment path("PATH", "/nonexistent");
    ScopedEnvironment cxx("CXX", "g++-1 -m64");
    ScopedEnvironment own("TORCH_SLANG_CXX", "");
    BOOST_TEST(contains(message_of([&] { load(source); }),
                        "there is no C++ compiler here (CXX names g++-1, which is not there, and none of c++, g++"));
  }
  ScopedEnvironment own("TORCH_SLANG_CXX", "/nonexistent/c++ -m64");
  BOOST_TEST(contains(message_of([&] { load(source); }),
                      "TORCH_SLANG_CXX names the C++ compiler /nonexistent/c++, which is not a program"));
}

BOOST_AUTO_TEST_CASE(a_compiler_that_dies_is_a_compile_error) {
  ScopedEnvironment own("TORCH_SLANG_CXX", "/bin/false");
  std::string message = message_of([&] { load(square()); });
  BOOST_TEST(contains(message, "does not compile for the CPU: /bin/false exited with status 1"), message);
}

BOOST_AUTO_TEST_CASE(a_kernel_is_compiled_once_and_then_taken_from_the_disk) {
  KernelSource source = source_of("once", kernel_text("once", "    y.store<int>(i, 1);\n"));
  int64_t before = cache::stats().host_runs;
  load(source);
  BOOST_TEST(cache::stats().host_runs == before + 1);
  auto again = load(source);
  BOOST_TEST(cache::stats().host_runs == before + 1);
  source.fast_math = true;
  load(source);
  BOOST_TEST(cache::stats().host_runs == before + 2);
}

BOOST_AUTO_TEST_CASE(without_a_usable_cache_kernels_still_run) {
  TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0777);  // others may write there: not trusted
  ScopedEnvironment cache_folder("TORCH_SLANG_CACHE_DIR", folder.path());
  auto kernel = load(square());
  auto x = counting(100);
  std::vector<float> y(100);
  launch(*kernel, blocks_of(32, 100), x, y);
  BOOST_TEST(y[99] == 10000.0f);
}

BOOST_AUTO_TEST_CASE(os_threads_may_load_the_same_kernel_at_once) {
  KernelSource source = source_of("at_once", kernel_text("at_once", "    y.store<int>(i, int(i));\n"));
  std::vector<int> sums(3);
  std::vector<std::thread> threads;
  for (int& sum : sums) {
    threads.emplace_back([&] {
      auto kernel = load(source);
      std::vector<int> x(64);
      std::vector<int> y(64);
      launch(*kernel, blocks_of(64, 64), x, y);
      sum = std::accumulate(y.begin(), y.end(), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(sums == std::vector<int>(3, 2016), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(marks_show_what_is_read_and_what_is_written) {
  ScopedEnvironment flags("TORCH_SLANG_CXXFLAGS", "");  // sanitizers keep code that is never reached
  KernelSource source = square();
  BOOST_TEST((load(source)->marks() == std::set<std::string>{"uses 0", "uses 1"}));
  source.make_view =
      "return k == 0 ? tsl::absent(tsl::present_view(args, 0)) : k == 1 ? tsl::readonly(tsl::present_view(args, 1)) : "
      "tsl::present_view(args, k);";
  BOOST_TEST((load(source)->marks() == std::set<std::string>{"reads 0", "uses 1", "writes 1"}));
}

namespace {

// Launches with checks; gives the fault that is noted. View 1 has `sizes`, its gradient's slots begin at 0.
struct Checked {
  Checks checks = Checks::All;
  std::vector<unsigned> sizes = {64};
  LaunchShape shape = blocks_of(32, 64);
  bool waves = false;
  Direction direction = Direction::Backward;

  TslFault fault_of(const std::string& statements, std::vector<float>* values = nullptr) const {
    KernelSource source = source_of("checked", kernel_text("checked", statements));
    source.make_view = "return tsl::gradient(tsl::present_view(args, k), 0);";
    source.checks = checks;
    source.text.waves = waves;
    source.text.direction = direction;
    std::vector<float> y(4096), x(1);
    std::vector<unsigned> owners(2 * y.size());
    TslFault fault{};
    Args args{};
    std::copy_n(shape.grid, 3, args.header.grid);
    std::copy_n(shape.block, 3, args.header.block);
    args.header.fault = &fault;
    args.views[0] = view_of(x);
    args.views[1] = view_of(y);
    args.views[1].dimensionCount = static_cast<unsigned>(sizes.size());
    long long stride = sizeof(float);
    for (size_t d = sizes.size(); d-- > 0;) {
      args.views[1].sizes[d] = sizes[d];
      args.views[1].strides[d] = stride;
      stride *= sizes[d];
    }
    args.slots[kTslOwners] = reinterpret_cast<unsigned long long>(owners.data());
    load(source)->launch_serially(shape, &args, sizeof args);
    if (values != nullptr) *values = y;
    return fault;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_index_outside_is_noted_and_the_access_left_out) {
  for (Checks checks : {Checks::Bounds, Checks::All}) {
    std::vector<float> y;
    const TslFault fault =
        Checked{checks}.fault_of("TSL_AT(2, 17); y.store<float>(i + 3U, 1.0f + y.load<float>(i + 3U));\n", &y);
    BOOST_TEST(fault.kind == kTslOutOfBounds);
    BOOST_TEST(fault.view == 1);
    BOOST_TEST(fault.dimension == 0);
    BOOST_TEST(fault.count == 1u);
    BOOST_TEST(fault.index[0] == 64u);
    BOOST_TEST(fault.size == 64u);
    BOOST_TEST(fault.file == 2u);
    BOOST_TEST(fault.line == 17u);
    BOOST_TEST(fault.thread[0] == 29u);
    BOOST_TEST(fault.block[0] == 1u);
    BOOST_TEST(y[63] == 1.0f);
    BOOST_TEST(y[64] == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(every_access_by_index_is_checked) {
  for (const char* statement : {
           "y.store<float>(uint2{3, i}, 1.0f)",
           "x.store<float>(0u, y.load<float>(3u, i))",
           "atomicAdd(y.data_ptr_at<float>(uint2{3, i}), 1.0f)",
           "tsl_accumulate<float>(y, uint2{3, i}, 1.0f, TSL_MODE(0))",
           "tsl_accumulate_fixed<float>(y, uint2{3, i}, 1.0f, TSL_MODE(2))",
           "tsl_add<float>(y, uint2{3, i}, 1.0f, TSL_MODE(0))",
           "tsl_set<float>(y, uint2{3, i}, 1.0f, TSL_MODE(0))",
           "x.store<float>(0u, tsl_take<float>(y, uint2{3, i}, TSL_MODE(0)))",
           "x.store<float>(0u, tsl_take_uniform<float>(y, uint2{3, i}, TSL_MODE(0)))",
           "x.store<float>(0u, tsl_take_once<float>(y, uint2{3, i}, TSL_MODE(0)))",
           "tsl_put<float>(y, uint2{3, i}, tsl_get<float>(y, uint2{3, i}))",
       }) {
    BOOST_TEST_CONTEXT(statement) {
      const Direction direction =
          std::string_view(statement).find("tsl_put") == 0 ? Direction::Jvp : Direction::Backward;
      Checked checked{Checks::Bounds, {4, 16}};
      checked.direction = direction;
      const TslFault fault = checked.fault_of(statement + std::string(";\n"));
      BOOST_TEST(fault.kind == kTslOutOfBounds);
      BOOST_TEST(fault.dimension == 1);
      BOOST_TEST(fault.count == 2u);
      BOOST_TEST(fault.index[0] == 3u);
      BOOST_TEST(fault.index[1] == 16u);
      BOOST_TEST(fault.size == 16u);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_index_too_few_or_too_many_is_a_wrong_rank) {
  const auto kind = [](Checks checks, const char* statement) {
    return Checked{checks, {4, 16}}.fault_of(statement).kind;
  };
  BOOST_TEST(kind(Checks::All, "y.store<float>(0u, 1.0f);") == kTslWrongRank);
  BOOST_TEST(kind(Checks::All, "y.store<float>(uint3{0, 0, 0}, 1.0f);") == kTslWrongRank);
  BOOST_TEST(kind(Checks::All, "y.store<float>(uint2{0, 0}, 1.0f);") == kTslNoFault);
  // Where only bounds are checked, what has no address of its own.
  BOOST_TEST(kind(Checks::Bounds, "y.store<float>(0u, 1.0f);") == kTslNoFault);
  BOOST_TEST(kind(Checks::Bounds, "y.store<float>(uint3{0, 0, 0}, 1.0f);") == kTslNoFault);
  const TslFault fault = Checked{Checks::Bounds, {4, 16}}.fault_of("y.store<float>(uint3{0, 0, 1}, 1.0f);");
  BOOST_TEST(fault.kind == kTslWrongRank);
  BOOST_TEST(fault.count == 3u);
  BOOST_TEST(fault.size == 2u);
}

BOOST_AUTO_TEST_CASE(promises_of_gradient_views_are_checked) {
  const struct {
    const char* statement;
    unsigned kind;
  } table[] = {
      {"tsl_add<float>(y, i, 1.0f, TSL_MODE(0)); tsl_add<float>(y, i, 1.0f, TSL_MODE(0));", kTslNoFault},
      {"tsl_add<float>(y, i / 2, 1.0f, TSL_MODE(0));", kTslUsedTwice},
      {"tsl_set<float>(y, i, 1.0f, TSL_MODE(0));", kTslNoFault},
      {"tsl_set<float>(y, i, 1.0f, TSL_MODE(0)); tsl_set<float>(y, i, 1.0f, TSL_MODE(0));", kTslUsedTwice},
      {"x.store<float>(0u, tsl_take_once<float>(y, i, TSL_MODE(0))); tsl_set<float>(y, i, 1.0f, TSL_MODE(0));",
       kTslNoFault},
      {"x.store<float>(0u, tsl_take_once<float>(y, i / 2, TSL_MODE(0)));", kTslUsedTwice},
      {"x.store<float>(0u, tsl_take_uniform<float>(y, i, TSL_MODE(0)) + tsl_take_uniform<float>(y, i, TSL_MODE(0)));",
       kTslNoFault},
      {"tsl_accumulate_fixed<float>(y, 5u, 1.0f, TSL_MODE(0));", kTslNoFault},
      {"tsl_accumulate_fixed<float>(y, i / 32, 1.0f, TSL_MODE(0));", kTslNoFault},
      {"tsl_accumulate_fixed<float>(y, i / 31, 1.0f, TSL_MODE(0));", kTslNotFixed},
      {"if (i % 2 == 0) { tsl_accumulate_fixed<float>(y, 5u, 1.0f, TSL_MODE(0)); }", kTslNoFault},
  };
  for (const auto& [statement, kind] : table) {
    BOOST_TEST_CONTEXT(statement) {
      BOOST_TEST((Checked{Checks::All, {64}, blocks_of(64, 64), true}.fault_of(statement).kind == kind));
    }
  }
  const TslFault fault = Checked{}.fault_of("tsl_add<float>(y, i / 40, 1.0f, TSL_MODE(0));");
  BOOST_TEST(fault.index[0] == 0u);
  BOOST_TEST(fault.other == 0u);
  BOOST_TEST(fault.thread[0] == 1u);
}

namespace {

// Gradients of view 1, four floats (or other numbers), by threads of which only the first 60 do something.
struct Gathered {
  std::string numbers = "float", tag = "tsl::kFloat32";
  size_t elements = 4;

  std::shared_ptr<const CpuKernel> kernel(const std::string& statements, int places) const {
    KernelSource source =
        source_of("gather", kernel_text("gathering", "if (i >= 60) return;\n" + statements) +
                                "__device__ void gather() { gathering(); " +
                                (places > 0 ? "tsl_finish(1, " + std::to_string(places) + "); " : "") + "}\n");
    source.make_view = "return tsl::gradient(tsl::of_scalars(tsl::present_view(args, k), " + tag + "), 0);";
    return load(source);
  }

  void run(const CpuKernel& kernel, std::vector<float>& gradient, std::vector<unsigned long long> slots) const {
    Args args{};
    const LaunchShape shape = blocks_of(16, 64);
    std::copy_n(shape.grid, 3, args.header.grid);
    std::copy_n(shape.block, 3, args.header.block);
    args.views[1] = view_of(gradient);
    args.views[1].sizes[0] = static_cast<unsigned>(elements);
    std::copy(slots.begin(), slots.end(), args.slots);
    kernel.launch(shape, &args, sizeof args);
  }
};

template <class T>
unsigned long long address(std::vector<T>& values) {
  return reinterpret_cast<unsigned long long>(values.data());
}

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_share_the_sum_among_the_threads) {
  const Gathered gathered;
  const auto kernel = gathered.kernel("tsl_accumulate<float>(y, i % 4u, 1.0f, TSL_MODE(-1));\n", 0);
  for (unsigned long long replicas : {1, 3, 8}) {
    std::vector<float> gradient(4 * replicas);
    gathered.run(*kernel, gradient, {0, replicas, 16});
    for (size_t element = 0; element < 4; ++element) {
      float sum = 0;
      for (size_t r = 0; r < replicas; ++r) sum += gradient[4 * r + element];
      BOOST_TEST(sum == 15.0f);
    }
    BOOST_TEST(gradient[4 * (replicas - 1)] + gradient[4 * (replicas - 1) + 3] > 0.0f);  // the last has its part
  }
}

BOOST_AUTO_TEST_CASE(what_is_taken_comes_from_all_replicas_and_leaves_zero) {
  const Gathered gathered;
  const auto kernel = gathered.kernel("if (i == 0) { y.store<float>(3u, tsl_take<float>(y, 1u, TSL_MODE(-1))); }\n", 0);
  std::vector<float> gradient = {0, 1, 0, 0, 0, 20, 0, 0, 0, 300, 0, 0};
  gathered.run(*kernel, gradient, {0, 3, 16});
  BOOST_TEST(gradient == (std::vector<float>{0, 0, 0, 321, 0, 0, 0, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(records_are_filled_to_the_end_and_what_finds_no_place_is_added) {
  const Gathered gathered;
  // Threads 0 to 59 add one, two or three times; two places each. Threads 60 to 63 return at once.
  const auto kernel = gathered.kernel(
      "for (uint k = 0; k <= i % 3; ++k) { tsl_accumulate<float>(y, (i + k) % 4u, 1.0f + k, TSL_MODE(2)); }\n", 2);
  std::vector<float> gradient(4), values(128, -1.0f);
  std::vector<int64_t> indices(128, -1);
  std::vector<unsigned long long> overflow(1);
  gathered.run(*kernel, gradient, {0, address(values), address(indices), address(overflow)});
  std::vector<float> expected(4), direct(4), sum = gradient;
  for (unsigned i = 0; i < 60; ++i) {
    for (unsigned k = 0; k <= i % 3; ++k) expected[(i + k) % 4] += 1.0f + k;
    if (i % 3 == 2) direct[(i + 2) % 4] += 3.0f;
  }
  for (size_t place = 0; place < 128; ++place) {
    BOOST_REQUIRE((indices[place] >= 0 && indices[place] < 4));
    sum[indices[place]] += values[place];
  }
  BOOST_TEST(gradient == direct, boost::test_tools::per_element());
  BOOST_TEST(sum == expected, boost::test_tools::per_element());
  BOOST_TEST(overflow[0] == 20u);
  BOOST_TEST(values[61] == 0.0f);  // a thread that returned early
  BOOST_TEST(indices[64 + 7] == 0);  // pair k of thread t lies at [k * threads + t]: (7 + 1) % 4
  BOOST_TEST(values[64 + 7] == 2.0f);
}

BOOST_AUTO_TEST_CASE(without_a_record_all_is_added_at_once) {
  const Gathered gathered;
  const auto kernel = gathered.kernel("tsl_accumulate<float>(y, i % 4u, 1.0f, TSL_MODE(2));\n", 2);
  std::vector<float> gradient(4);
  gathered.run(*kernel, gradient, {});
  BOOST_TEST(gradient == std::vector<float>(4, 15.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_record_of_no_elements_is_finished_too) {
  Gathered gathered;
  gathered.elements = 0;
  const auto kernel = gathered.kernel("", 1);
  std::vector<float> gradient(1), values(64, -1.0f);
  std::vector<int64_t> indices(64, -1);
  gathered.run(*kernel, gradient, {0, address(values), address(indices), 0});
  BOOST_TEST(values == std::vector<float>(64), boost::test_tools::per_element());
  BOOST_TEST(indices == std::vector<int64_t>(64), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(halves_are_added_up_in_float_and_structs_by_their_numbers) {
  Gathered gathered;
  gathered.tag = "tsl::kFloat16";
  const std::string head =
      "struct Two { __half a; __half b; }; Two two; two.a = __half(1.0f); two.b = __half(0.0009765625f);\n";
  for (const char* statement :
       {"tsl_accumulate<Two>(y, 0u, two, TSL_MODE(-1));", "tsl_accumulate_fixed<Two>(y, 0u, two, TSL_MODE(7));"}) {
    const auto kernel = gathered.kernel(head + statement, 0);
    std::vector<float> gradient(4);
    gathered.run(*kernel, gradient, {0, std::string(statement).find("-1") != std::string::npos ? 1ull : 0ull, 8});
    BOOST_TEST(gradient[0] == 60.0f);
    BOOST_TEST(gradient[1] == 60 * 0.0009765625f);
  }
}

BOOST_AUTO_TEST_CASE(blocks_run_once_each_whatever_they_cost) {
  BlockCost cost;
  for (int microseconds : {0, 0, 200, 200, 0, 0}) {
    for (int64_t blocks : {1, 2, 7, 64}) {
      std::vector<std::atomic<int>> seen(blocks);
      run_in_parallel(blocks, cost, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) {
          ++seen[b];
          std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        }
      });
      for (const auto& count : seen) BOOST_TEST(count == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_exception_in_a_thread_of_the_pool_reaches_the_caller) {
  for (int64_t bad : {0, 31, 63}) {
    BlockCost cost;
    auto run = [&](int64_t first, int64_t last) {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * (last - first)));
      if (first <= bad && bad < last) throw_launch_error("block ", bad);
    };
    std::string message = message_of([&] { run_in_parallel(64, cost, run); });
    BOOST_TEST(message == "block " + std::to_string(bad));
  }
}

BOOST_AUTO_TEST_CASE(a_launch_inside_a_parallel_region_stays_on_its_thread) {
  BlockCost cost;
  at::parallel_for(0, 4, 1, [&](int64_t, int64_t) {
    auto caller = std::this_thread::get_id();
    run_in_parallel(64, cost, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      TORCH_CHECK(std::this_thread::get_id() == caller, "another thread runs blocks");
    });
  });
}

BOOST_AUTO_TEST_CASE(launch_shapes_that_a_gpu_refuses_are_refused) {
  struct Case {
    LaunchShape shape;
    std::string part;
  };
  for (const Case& each :
       {Case{{{1, 1, 1}, {1025, 1, 1}}, "but got 1025"},
        Case{{{1, 65536, 1}, {1, 1, 1}}, "the grid's y from 1 to 65535"},
        Case{{{1, 1, 65536}, {1, 1, 1}}, "the grid's z"}, Case{{{1, 1, 1}, {0, 1, 1}}, "the block's x from 1"},
        Case{{{1, 1, 1}, {64, 64, 1}}, "at most 1024 threads a block on CPU, but got 4096"}}) {
    std::string message = message_of([&] { cpu_backend().check_launch("slang::sqr", each.shape, kCpu); });
    BOOST_TEST(contains(message, "slang::sqr: cannot launch a grid ["), message);
    BOOST_TEST(contains(message, each.part), message);
  }
  cpu_backend().check_launch("slang::sqr", {{1u << 30, 65535, 65535}, {32, 32, 1}}, kCpu);
}

BOOST_AUTO_TEST_SUITE_END()
