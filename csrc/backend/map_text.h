// The generated text around an elementwise function: Note [map loops] in backend.h.
#pragma once

#include <string>

#include "backend/backend.h"

namespace torch_slang {

// Members of the kernel object: an element's values, and how emitted text reaches them.
std::string map_members(const MapLoop& map);

// Launchers: a grid-stride loop of threads, and the loop over a block's elements on the host.
std::string cuda_map_launcher(const KernelSource& source);
std::string host_map_launcher(const KernelSource& source);

}  // namespace torch_slang
