// A kernel compiled for the CPU: a loaded object, and how its blocks run. Immutable but for its estimate of its cost;
// any thread may launch it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/parallel_blocks.h"
#include "backend/launch_shape.h"
#include "common/dynamic_library.h"
#include "device_compilers/host/launcher_text.h"

namespace torch_slang {

class CpuKernel final : public Kernel {
 public:
  CpuKernel(const KernelSource& source, DynamicLibrary library, std::set<std::string> marks);
  ~CpuKernel() override;
  CpuKernel(const CpuKernel&) = delete;
  CpuKernel& operator=(const CpuKernel&) = delete;

  void launch(const LaunchShape& shape, const void* args, size_t args_size) const override;
  void launch_samples(const LaunchShape& shape, const void* args, size_t args_size,
                      const Samples& samples) const override;
  LaunchShape on_device(const LaunchShape& shape) const override { return in_one_row(op_, shape); }
  // The same on the calling thread alone.
  void launch_serially(const LaunchShape& shape, const void* args, size_t args_size) const;

  const std::set<std::string>& marks() const override { return marks_; }
  uint32_t preferred_block() const override;
  uint32_t resident_blocks() const override;

 private:
  void check_args(size_t args_size) const;
  void run_blocks(const LaunchShape& shape, const void* args, int64_t first, int64_t last) const;
  void run_meeting_blocks(const LaunchShape& shape, const void* args, int64_t first, int64_t last) const;

  std::string op_;
  size_t args_size_;
  DynamicLibrary library_;
  std::set<std::string> marks_;
  Hold* hold_ = nullptr;  // or the library has none
  RunBlocks* run_blocks_ = nullptr;  // one of the two
  RunThread* run_thread_ = nullptr;
  mutable BlockCost cost_;
};

}  // namespace torch_slang
