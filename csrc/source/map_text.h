// The generated text around an elementwise function: the types of its views, and a call of the loop that the prelude has
// (prelude/map.h). Note [map loops] in source/kernel_source.h.
#pragma once

#include <string>

#include "source/kernel_source.h"

namespace torch_slang {

// TslInputs and TslOutputs, which `struct Kernel : tsl::MapKernel<Own, TslInputs, TslOutputs>` is made with, and what sets the
// kernel object's places.
std::string map_types(const MapLoop& map);

// Launchers: a grid-stride loop of threads, and the loop over a block's elements on the host.
std::string cuda_map_launcher(const KernelSource& source);
std::string host_map_launcher(const KernelSource& source);

}  // namespace torch_slang
