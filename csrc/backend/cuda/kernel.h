// A kernel loaded on one GPU.
//
// Note [modules stay]
//   A loaded module is never unloaded. A captured graph may launch its functions long after the last Kernel object is
//   gone, and at the end of the process the driver may be gone before we are.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/matrix_maps.h"
#include "device_compilers/nvrtc/nvrtc_compiler.h"

namespace torch_slang {

class CudaKernel final : public Kernel {
 public:
  CudaKernel(const KernelSource& source, const CudaGpu& gpu, CudaBinary binary);

  // On torch's current stream of this GPU, whatever device and context the calling thread has.
  void launch(const LaunchShape& shape, const void* args, size_t args_size) const override;
  void launch_samples(const LaunchShape& shape, const void* args, size_t args_size,
                      const Samples& samples) const override;
  LaunchShape on_device(const LaunchShape& shape) const override;
  const std::set<std::string>& marks() const override { return marks_; }
  int registers() const override { return registers_; }
  int group_shared_bytes() const override { return group_shared_bytes_; }
  int local_bytes() const override { return local_bytes_; }
  bool fits(const LaunchShape& shape) const override;
  uint32_t preferred_block() const override;
  uint32_t resident_blocks() const override;

 private:
  void load(const std::string& image);
  void prepare_tiles();
  void check_args(size_t args_size) const;
  void launch_tiles(const LaunchShape& launch, const void* args) const;
  void launch_on(const LaunchShape& shape, const void* args) const;
  CudaResult launch_clusters(const LaunchShape& shape, void** parameters) const;
  // Points to `attribute`.
  CudaLaunchConfig in_clusters(const LaunchShape& shape, CudaStream stream, CudaLaunchAttribute& attribute) const;
  [[noreturn]] void fail_launch(CudaResult result, const LaunchShape& shape) const;
  [[noreturn]] void refuse_block(const LaunchShape& shape) const;

  const std::string op_;
  const CudaGpu& gpu_;
  const size_t args_size_;
  const VirtualThreads threads_;
  const int sample_dims_;
  const size_t sample_steps_offset_;
  const std::set<std::string> marks_;
  std::unique_ptr<const MatrixMaps> maps_;  // of a kernel that multiplies matrices, as these are:
  uint32_t tile_threads_ = 0;  // of a hardware block
  uint32_t shared_bytes_ = 0;
  uint32_t blocks_of_tile_ = 1;
  uint32_t cluster_ = 1;  // blocks that share their memory
  uint32_t resident_tiles_ = 0;  // blocks that the device runs at once
  CudaFunction function_ = nullptr;
  uint32_t max_threads_ = 0;  // a block, as the kernel's registers and launch bounds allow
  int registers_ = 0;
  int group_shared_bytes_ = 0;
  int local_bytes_ = 0;
};

}  // namespace torch_slang
