#include "backend/backend.h"

#include <c10/util/Exception.h>

namespace torch_slang {

Backend& backend_for(c10::DeviceType type) {
  if (type == c10::kCPU) return cpu_backend();
  if (type == c10::kCUDA) return cuda_backend();
  TORCH_CHECK(false, "torch_slang runs kernels on CPU and CUDA tensors, but got a tensor on device type ", type);
}

}  // namespace torch_slang
