// A pass over host functions: their launches name the kernel, whose address is not there.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// cudaLaunchKernel((const void*)(kernel), ... becomes tsl::launch<decltype(kernel)>("kernel", ...: the kernel's name and the
// types of its parameters. Counts the launches.
int name_launched_kernels(Code& code);

}  // namespace torch_slang
