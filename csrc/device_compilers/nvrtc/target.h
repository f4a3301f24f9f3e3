#pragma once

#include <string>

namespace torch_slang {

// A GPU to compile for, by its compute capability.
struct CudaTarget {
  int major = 0;
  int minor = 0;
  std::string name;  // "NVIDIA H200", for messages
};

}  // namespace torch_slang
