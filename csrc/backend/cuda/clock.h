// The GPU's own clock: Backend::seconds.
#pragma once

#include <c10/util/FunctionRef.h>

#include "backend/cuda/device.h"

namespace torch_slang {

double seconds_on_gpu(const CudaGpu& gpu, c10::function_ref<void()> work, int rounds);

}  // namespace torch_slang
