// Where NVIDIA's run-time compiler lies: found by its file, without loading it, so that a process that takes all its
// kernels from the disk cache never does.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

// Files that may be it, in the order of preference: TORCH_SLANG_NVRTC, one that the process has loaded, beside torch's
// own libraries, in other folders of NVIDIA's wheels, LD_LIBRARY_PATH, CUDA_HOME, the system's places.
std::vector<std::string> nvrtc_candidates();

// The first whose CUDA major version the machine's driver can load binaries of (any, where there is no driver). Throws a
// c10::Error that says where it was looked for and how to get it.
std::string find_nvrtc();

}  // namespace torch_slang
