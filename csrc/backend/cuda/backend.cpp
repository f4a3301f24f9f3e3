#include "backend/backend.h"

#include <memory>

#include "backend/cuda/clock.h"
#include "backend/cuda/copies.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernel.h"
#include "device_compilers/nvrtc/nvrtc_compiler.h"
#include "foreign/driver_api.h"

namespace torch_slang {
namespace {

class CudaBackend final : public Backend {
 public:
  std::shared_ptr<const Kernel> load(const KernelSource& source, c10::Device device) override {
    const CudaGpu& gpu = CudaGpu::of(device);
    return std::make_shared<CudaKernel>(source, gpu, load_or_compile(source, gpu.target()));
  }

  void check_launch(const std::string& op, const LaunchShape& shape, c10::Device device) override {
    check_limits(op, shape, CudaGpu::of(device).limits());
  }

  uint64_t threads_at_once(c10::Device device) override {
    constexpr uint64_t kThreads = 2048;  // of a multiprocessor
    return kThreads * static_cast<uint64_t>(CudaGpu::of(device).multiprocessors());
  }

  bool is_capturing(c10::Device device) override {
    const CudaGpu& gpu = CudaGpu::of(device);
    const CurrentContext context(gpu);
    int status = 0;  // none, active or invalidated
    check_driver(driver().stream_is_capturing(current_stream(gpu), &status), "cuStreamIsCapturing",
                 "looking at a stream");
    return status != 0;
  }

  void copy_to_cpu(c10::Device device, const c10::Event& made, void* to, const void* from, size_t bytes) override {
    copy_beside_captures(CudaGpu::of(device), made, to, from, bytes);
  }

  std::string hardware(c10::Device device) override {
    const auto given = given_architecture();
    return CudaGpu::of(device).target().name + (given ? " as " + *given : "");
  }

  bool multiplies_lines(c10::Device device) override {
    return architecture_for(CudaGpu::of(device).target(), /*has_tiles=*/true) == "sm_90a" && driver().tensor_map_encode;
  }

  double seconds(c10::Device device, c10::function_ref<void()> work, int rounds) override {
    return seconds_on_gpu(CudaGpu::of(device), work, rounds);
  }
};

}  // namespace

Backend& cuda_backend() {
  static auto* backend = new CudaBackend();  // never destroyed: kernels outlive static destructors
  return *backend;
}

}  // namespace torch_slang
