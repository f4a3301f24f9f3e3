// One GPU: its primary context, which is torch's, and what its hardware allows. Made at the first use of the device and
// kept until the process ends; usable from any thread.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "backend/launch_shape.h"
#include "device_compilers/nvrtc/target.h"
#include "foreign/driver_api.h"

namespace torch_slang {

class CudaGpu {
 public:
  static const CudaGpu& of(c10::Device device);  // throws, naming the missing part

  int index() const { return index_; }
  CudaContext context() const { return context_; }
  const LaunchLimits& limits() const { return limits_; }
  const CudaTarget& target() const { return target_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  explicit CudaGpu(int index);
  int attribute(int which) const;

  int index_;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  CudaTarget target_;
  LaunchLimits limits_;
  int multiprocessors_ = 1;
};

CudaStream current_stream(const CudaGpu& gpu);  // torch's, on the calling thread

// Makes the GPU's context the calling thread's while it lives. A thread without any (a fresh one, autograd's own) keeps
// it: that is what CUDA's run-time would have set.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaGpu& gpu);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  CudaContext restore_ = nullptr;
};

// Lets the calling thread load modules, wait and copy while one of its streams, or another thread's, is being captured.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCudaCaptureRelaxed;
};

}  // namespace torch_slang
