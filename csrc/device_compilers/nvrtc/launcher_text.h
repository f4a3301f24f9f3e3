// The generated kernel around a kernel object: what the GPU starts.
#pragma once

#include <string>

#include "source/kernel_source.h"

namespace torch_slang {

std::string cuda_launcher(const KernelSource& source);

}  // namespace torch_slang
