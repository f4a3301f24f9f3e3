// What a cubin tells about its kernel without a GPU. (ptxas's log does too, but is empty when NVRTC takes the code from the
// driver's compute cache.)
#pragma once

#include <string_view>

namespace torch_slang {

// Registers a thread of the cubin's kernel; 0 if it does not say.
int registers_of_cubin(std::string_view cubin);

}  // namespace torch_slang
