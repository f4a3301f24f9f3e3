// Flags for what a host compiler is known to get wrong on this processor: Note [refused code] in processor.h.
#pragma once

#include <string>
#include <vector>

#include "device_compilers/host/host_compiler.h"
#include "program/program.h"

namespace torch_slang {

// `flags`, and one more for each intrinsic that the text uses and the compiler gets wrong.
std::vector<std::string> with_workarounds(const HostCompiler& compiler, std::vector<std::string> flags,
                                          const DeviceText& text);

}  // namespace torch_slang
