// A pass over host functions: their launches name the kernel, whose address is not there.
#pragma once

#include <string>

namespace torch_slang {

// cudaLaunchKernel((const void*)(kernel), ... becomes tsl::launch<decltype(kernel)>("kernel", ...: the kernel's name and the
// types of its parameters. Counts the launches.
int name_launched_kernels(std::string& text);

}  // namespace torch_slang
