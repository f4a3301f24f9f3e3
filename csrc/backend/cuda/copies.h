// Copies from a GPU's memory by a thread that works beside the program's: Backend::copy_to_cpu.
#pragma once

#include <c10/core/Event.h>

#include <cstddef>

#include "backend/cuda/device.h"

namespace torch_slang {

void copy_beside_captures(const CudaGpu& gpu, const c10::Event& made, void* to, const void* from, size_t bytes);

}  // namespace torch_slang
