#include "backend/cuda/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <memory>
#include <mutex>

namespace torch_slang {
namespace {

constexpr size_t kMaxGpus = 64;

}  // namespace

const CudaGpu& CudaGpu::of(c10::Device device) {
  static std::mutex mutex;
  static auto* gpus = new std::array<std::unique_ptr<CudaGpu>, kMaxGpus>();  // never destroyed: they name driver state
  TORCH_CHECK(device.is_cuda() && device.has_index() && static_cast<size_t>(device.index()) < kMaxGpus,
              "expected a CUDA device with an index below ", kMaxGpus, ", but got ", device);
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<CudaGpu>& gpu = gpus->at(static_cast<size_t>(device.index()));
  if (!gpu) gpu.reset(new CudaGpu(device.index()));
  return *gpu;
}

CudaGpu::CudaGpu(int index) : index_(index) {
  const std::string what = "using cuda:" + std::to_string(index);
  check_driver(driver().device_get(&device_, index), "cuDeviceGet", what);
  char name[256] = {};
  check_driver(driver().device_get_name(name, sizeof(name), device_), "cuDeviceGetName", what);
  check_driver(driver().primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain", what);

  target_.major = attribute(kCudaCapabilityMajor);
  target_.minor = attribute(kCudaCapabilityMinor);
  target_.name = name;
  for (int axis = 0; axis < 3; ++axis) {
    limits_.grid[axis] = static_cast<uint64_t>(attribute(kCudaMaxGridX + axis));
    limits_.block[axis] = static_cast<uint64_t>(attribute(kCudaMaxBlockX + axis));
  }
  multiprocessors_ = attribute(kCudaMultiprocessors);
  limits_.threads = static_cast<uint64_t>(attribute(kCudaMaxThreadsPerBlock));
  limits_.device = name;
}

int CudaGpu::attribute(int which) const {
  int value = 0;
  check_driver(driver().device_get_attribute(&value, which, device_), "cuDeviceGetAttribute",
               "using cuda:" + std::to_string(index_));
  return value;
}

CudaStream current_stream(const CudaGpu& gpu) {
  const c10::impl::VirtualGuardImpl torch(c10::kCUDA);
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu.index()));
  return static_cast<CudaStream>(torch.getStreamNativeHandle(torch.getStream(device)));
}

CurrentContext::CurrentContext(const CudaGpu& gpu) {
  CudaContext before = nullptr;
  check_driver(driver().context_get_current(&before), "cuCtxGetCurrent", "using a GPU");
  if (before == gpu.context()) return;
  check_driver(driver().context_set_current(gpu.context()), "cuCtxSetCurrent", "using a GPU");
  restore_ = before;
}

CurrentContext::~CurrentContext() {
  if (restore_ != nullptr) driver().context_set_current(restore_);
}

RelaxedCapture::RelaxedCapture() {
  check_driver(driver().exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode", "working beside a capture");
}

RelaxedCapture::~RelaxedCapture() { driver().exchange_capture_mode(&mode_); }

}  // namespace torch_slang
