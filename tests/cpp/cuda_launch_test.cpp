// Launching on a GPU, through torch's streams but without any tensor. Skipped with a message where there is no GPU or
// torch has no CUDA, unless TORCH_SLANG_REQUIRE_CUDA=1. Also a target for compute-sanitizer.
#include <boost/test/unit_test.hpp>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "common/dynamic_library.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "prelude/abi.h"
#include "square_source.h"
#include "torch_slang/error.h"

BOOST_AUTO_TEST_SUITE(cuda_launch_test)

using namespace torch_slang;

namespace {

using Graph = void*;

// What the test itself needs of the driver.
struct TestDriver {
  DynamicLibrary library = DynamicLibrary::open("libcuda.so.1");
  ForeignFunction<CudaResult(int*)> count{library, "cuDeviceGetCount"};
  ForeignFunction<CudaResult(uint64_t*, size_t)> allocate{library, "cuMemAlloc_v2"};
  ForeignFunction<CudaResult(uint64_t)> release{library, "cuMemFree_v2"};
  ForeignFunction<CudaResult(uint64_t, const void*, size_t)> copy_in{library, "cuMemcpyHtoD_v2"};
  ForeignFunction<CudaResult(void*, uint64_t, size_t)> copy_out{library, "cuMemcpyDtoH_v2"};
  ForeignFunction<CudaResult()> synchronize{library, "cuCtxSynchronize"};
  ForeignFunction<CudaResult(CudaStream, int)> begin_capture{library, "cuStreamBeginCapture_v2"};
  ForeignFunction<CudaResult(CudaStream, Graph*)> end_capture{library, "cuStreamEndCapture"};
  ForeignFunction<CudaResult(Graph*, Graph, unsigned long long)> instantiate{library, "cuGraphInstantiateWithFlags"};
  ForeignFunction<CudaResult(Graph, CudaStream)> launch_graph{library, "cuGraphLaunch"};
};

TestDriver& test_driver() {
  static auto* const api = new TestDriver();
  return *api;
}

int gpu_count() {
  static const int count = [] {
    std::string reason;
    int found = 0;
    // Registers torch's streams. Stays open: CUDA's libraries do not like to go.
    static const auto torch = DynamicLibrary::try_open("libtorch_cuda.so", &reason);
    if (torch && driver_version() > 0) test_driver().count(&found);
    if (found == 0) BOOST_TEST_MESSAGE("skipped: no GPU, or no CUDA in torch " << reason);
    if (found == 0 && environment_flag("TORCH_SLANG_REQUIRE_CUDA", false)) {
      throw boost::unit_test::framework::setup_error("no GPU, or no CUDA in torch " + reason);
    }
    return found;
  }();
  return count;
}

boost::test_tools::assertion_result has_gpu(boost::unit_test::test_unit_id) { return gpu_count() > 0; }
boost::test_tools::assertion_result has_two_gpus(boost::unit_test::test_unit_id) { return gpu_count() > 1; }

void succeed(CudaResult result) { BOOST_REQUIRE_EQUAL(result, kCudaSuccess); }

constexpr uint32_t kBlock = 128;

struct SquareArgs {
  TslHeader header;
  TslView views[2];
  unsigned long long slots[1];
  unsigned dims[1];
};

c10::Device gpu(int index) { return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)); }

// x, y and the launch of y = x * x on one GPU.
class Square {
 public:
  explicit Square(uint32_t size, int device = 0) : size_(size), gpu_(CudaGpu::of(gpu(device))) {
    const CurrentContext context(gpu_);
    for (uint64_t& buffer : buffers_) succeed(test_driver().allocate(&buffer, size * sizeof(float)));
    std::vector<float> values(size);
    for (uint32_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 100);
    succeed(test_driver().copy_in(buffers_[0], values.data(), size * sizeof(float)));
    succeed(test_driver().copy_in(buffers_[1], std::vector<float>(size, -1).data(), size * sizeof(float)));
    for (int k = 0; k < 2; ++k) {
      args_.views[k].data = reinterpret_cast<unsigned char*>(buffers_[k]);
      args_.views[k].strides[0] = sizeof(float);
      args_.views[k].sizes[0] = size;
      args_.views[k].dimensionCount = 1;
    }
  }
  ~Square() {
    const CurrentContext context(gpu_);
    for (const uint64_t buffer : buffers_) test_driver().release(buffer);
  }

  void launch(const Kernel& kernel, uint32_t block = kBlock) const {
    LaunchShape shape;
    shape.block[0] = block;
    shape.grid[0] = (size_ + block - 1) / block;
    kernel.launch(shape, &args_, sizeof(args_));
  }

  // Elements of y that were not written, and those with the right value.
  struct Outcome {
    uint32_t untouched = 0;
    uint32_t right = 0;
  };
  Outcome outcome() const {
    const CurrentContext context(gpu_);
    std::vector<float> values(size_);
    succeed(test_driver().synchronize());
    succeed(test_driver().copy_out(values.data(), buffers_[1], size_ * sizeof(float)));
    Outcome result;
    for (uint32_t i = 0; i < size_; ++i) {
      const auto x = static_cast<float>(i % 100);
      result.untouched += values[i] == -1.0f;
      result.right += values[i] == x * x;
    }
    return result;
  }

 private:
  uint32_t size_;
  const CudaGpu& gpu_;
  uint64_t buffers_[2] = {0, 0};
  SquareArgs args_{};
};

CudaContext current_context() {
  CudaContext context = nullptr;
  succeed(driver().context_get_current(&context));
  return context;
}

// Torch's current stream of the GPU while it lives.
class OnSideStream {
 public:
  explicit OnSideStream(int device)
      : stream_(torch_.getStreamFromGlobalPool(gpu(device))), before_(torch_.exchangeStream(stream_)) {}
  ~OnSideStream() { torch_.exchangeStream(before_); }
  CudaStream native() const { return static_cast<CudaStream>(torch_.getStreamNativeHandle(stream_)); }

 private:
  c10::impl::VirtualGuardImpl torch_{c10::kCUDA};
  c10::Stream stream_;
  c10::Stream before_;
};

struct OwnCache {
  OwnCache() { ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1); }
  TemporaryFolder folder;
};

struct Loaded : OwnCache {
  std::shared_ptr<const Kernel> kernel = cuda_backend().load(square_source(), gpu(0));
};

std::string launch_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const LaunchError& error) {
    return error.what_without_backtrace();
  }
  return "no LaunchError";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(one_gpu, *boost::unit_test::precondition(has_gpu))

BOOST_FIXTURE_TEST_CASE(kernel_computes_every_element_and_no_other, Loaded) {
  const Square square(1000003);
  square.launch(*kernel);
  BOOST_TEST(square.outcome().right == 1000003u);
  BOOST_TEST(kernel->preferred_block() == 256u);
  BOOST_TEST(kernel->marks().empty());
}

BOOST_FIXTURE_TEST_CASE(fresh_thread_without_a_context_launches, Loaded) {
  const Square square(1000);
  CudaContext before = reinterpret_cast<CudaContext>(1);
  // The main thread waits, and an error goes there.
  std::async(std::launch::async, [&] {
    before = current_context();
    square.launch(*kernel);
  }).get();
  BOOST_TEST(before == nullptr);
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_FIXTURE_TEST_CASE(launch_is_captured_and_replayed_on_torchs_current_stream, Loaded) {
  const Square square(1000);
  const OnSideStream side(0);
  Graph graph = nullptr;
  Graph executable = nullptr;
  succeed(test_driver().begin_capture(side.native(), /*global*/ 0));
  square.launch(*kernel);
  succeed(test_driver().end_capture(side.native(), &graph));
  BOOST_TEST(square.outcome().untouched == 1000u);
  kernel.reset();
  succeed(test_driver().instantiate(&executable, graph, 0));
  succeed(test_driver().launch_graph(executable, side.native()));
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_FIXTURE_TEST_CASE(kernel_loads_during_a_capture, OwnCache) {
  const Square square(1000);
  const OnSideStream side(0);
  Graph graph = nullptr;
  Graph executable = nullptr;
  succeed(test_driver().begin_capture(side.native(), /*global*/ 0));
  const auto kernel = cuda_backend().load(square_source(), gpu(0));
  square.launch(*kernel);
  succeed(test_driver().end_capture(side.native(), &graph));
  succeed(test_driver().instantiate(&executable, graph, 0));
  succeed(test_driver().launch_graph(executable, side.native()));
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_FIXTURE_TEST_CASE(short_kernels_are_timed_by_many_launches, Loaded) {
  const Square square(1000);
  int calls = 0;
  const auto work = [&] {
    ++calls;
    square.launch(*kernel);
  };
  BOOST_TEST(cuda_backend().seconds(gpu(0), work, 1) > 0);
  BOOST_TEST(calls == 1);
  calls = 0;
  const double seconds = cuda_backend().seconds(gpu(0), work, 10);
  BOOST_TEST(calls >= 40);  // ten, and three queues of ten or more
  BOOST_TEST(seconds > 0);
  BOOST_TEST(seconds < 1e-3);
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_FIXTURE_TEST_CASE(block_too_large_for_the_kernel_is_told, Loaded) {
  KernelSource bounded = square_source();
  bounded.block[0] = 64;
  bounded.block[1] = bounded.block[2] = 1;
  const auto small = cuda_backend().load(bounded, gpu(0));
  const Square square(1000);
  const std::string text = launch_error([&] { square.launch(*small, 128); });
  BOOST_TEST(
      text.find(
          "slang::sqr: cannot launch a grid [8, 1, 1] of blocks [128, 1, 1]: expected at most 64 threads a block") ==
      0u);
  BOOST_TEST(small->preferred_block() == 64u);
  square.launch(*small, 64);
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_AUTO_TEST_CASE(limits_of_the_device_are_checked_before_a_launch) {
  const auto check = [](LaunchShape shape) {
    return launch_error([&] { cuda_backend().check_launch("slang::sqr", shape, gpu(0)); });
  };
  BOOST_TEST(check({{2147483647u, 65535, 65535}, {1024, 1, 1}}) == "no LaunchError");
  BOOST_TEST(check({{2147483648u, 1, 1}, {1, 1, 1}}).find("expected the grid's x from 1 to 2147483647") !=
             std::string::npos);
  BOOST_TEST(check({{1, 65536, 1}, {1, 1, 1}}).find("expected the grid's y from 1 to 65535") != std::string::npos);
  BOOST_TEST(check({{1, 1, 0}, {1, 1, 1}}).find("but got 0") != std::string::npos);
  BOOST_TEST(check({{1, 1, 1}, {1, 1, 65}}).find("expected the block's z from 1 to 64") != std::string::npos);
  BOOST_TEST(check({{1, 1, 1}, {512, 4, 1}}).find("expected at most 1024 threads a block") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(failed_launch_names_op_shape_and_error, Loaded) {
  LaunchShape shape;
  shape.grid[1] = 70000;
  const SquareArgs args{};
  const std::string text = launch_error([&] { kernel->launch(shape, &args, sizeof(args)); });
  BOOST_TEST(text.find("slang::sqr: launching a grid [1, 70000, 1] of blocks [1, 1, 1]") == 0u);
  BOOST_TEST(text.find("cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(host_cost_of_a_launch_is_mostly_the_drivers, Loaded) {
  const Square square(32);
  constexpr int kLaunches = 20000;
  const auto time = [&](const auto& action) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) action();
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    square.outcome();
    return elapsed / kLaunches * 1e6;
  };
  time([&] { square.launch(*kernel); });
  const double all = time([&] { square.launch(*kernel); });
  const double context = time([&] { const CurrentContext current(CudaGpu::of(gpu(0))); });
  const c10::impl::VirtualGuardImpl torch(c10::kCUDA);
  const double stream = time([&] { torch.getStreamNativeHandle(torch.getStream(gpu(0))); });
  BOOST_TEST_MESSAGE("microseconds a launch: " << all << "; of which the context " << context << ", the stream "
                                               << stream);
  BOOST_TEST(square.outcome().right == 32u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_CASE(launch_goes_to_the_kernels_gpu_and_leaves_the_threads_context, Loaded,
                        *boost::unit_test::precondition(has_two_gpus)) {
  const Square square(1000, 1);
  const auto other = cuda_backend().load(square_source(), gpu(1));
  const CurrentContext first(CudaGpu::of(gpu(0)));
  const CudaContext before = current_context();
  square.launch(*other);
  BOOST_TEST(current_context() == before);
  BOOST_TEST(square.outcome().right == 1000u);
}

BOOST_AUTO_TEST_SUITE_END()
