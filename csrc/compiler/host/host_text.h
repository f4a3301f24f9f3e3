// Makes the HostText of a Program from the C++ that Slang emits for [TorchEntryPoint] functions. Launches of kernels and
// allocations become calls of the run-time.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// Takes the emitted functions, without Slang's prelude and Python bindings; adds what host_function.h asks for: names for the
// launched kernels, a `tsl_flatten` for each struct, and the entry points.
std::string shape_host_text(const std::string& emitted, const std::vector<HostFunction>& functions);

// Slang's diagnostics with, where it only has an internal error for something that we know, what that means.
std::string explain_host_diagnostics(const std::string& diagnostics);

}  // namespace torch_slang
