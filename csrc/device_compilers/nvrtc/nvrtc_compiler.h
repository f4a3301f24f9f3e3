// Device text to a binary for one GPU architecture, by NVRTC. Needs no GPU.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/quoted_files.h"
#include "device_compilers/nvrtc/target.h"
#include "source/kernel_source.h"

namespace torch_slang {

inline constexpr const char* kCudaEntry = "tsl_entry";  // the kernel's name in the binary

struct CudaCompilation {
  std::string image;  // a cubin; PTX where the architecture is a virtual one ("compute_90")
  std::string ptx;
  std::string log;    // NVRTC's
  int registers = 0;  // per thread; 0 for PTX
};

// Runs NVRTC. `architecture`: "sm_90" or "compute_90". Throws CompileError with the log whole if the source is wrong.
CudaCompilation compile_cuda(const std::string& op, const std::string& source, const std::string& architecture,
                             const std::vector<std::string>& options, const UsersFiles& users = UsersFiles({}));

// The result of a compilation, as the disk cache holds it.
struct CudaBinary {
  std::string image;
  std::set<std::string> marks;
};

// From the disk cache (NVRTC is then not even loaded), or compiled and put there.
CudaBinary load_or_compile(const KernelSource& source, const CudaTarget& target);

// For tests and tools, never from the cache.
CudaCompilation compile_for_architecture(const KernelSource& source, const std::string& architecture);

// The source text that is compiled, and its options without the architecture's.
std::string cuda_source_text(const KernelSource& source);
std::vector<std::string> cuda_options(const KernelSource& source);

// "sm_90" for compute capability 9.0. For a GPU newer than NVRTC: the newest virtual architecture, which the driver
// translates further. For one that NVRTC no longer knows: an error that says so.
// `has_tiles`: of a kernel that multiplies matrices, which takes what Hopper alone has ("sm_90a").
std::string architecture_for(const CudaTarget& target, bool has_tiles);

// TORCH_SLANG_CUDA_ARCHITECTURE: another for all kernels, "compute_80", say, to see what an older GPU would run.
std::optional<std::string> given_architecture();

}  // namespace torch_slang
