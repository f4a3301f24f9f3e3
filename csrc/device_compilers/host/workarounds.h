// Flags for what a host compiler is known to get wrong on this processor: Note [refused code] in processor.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device_compilers/host/host_compiler.h"

namespace torch_slang {

// `flags`, and one more for each thing that `text`, which is emitted code, names and the compiler gets wrong.
std::vector<std::string> with_workarounds(const HostCompiler& compiler, std::vector<std::string> flags,
                                          std::string_view text);

}  // namespace torch_slang
