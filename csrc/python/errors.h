// Errors of C++ as Python's. Ours keep their names, torch_slang.CompileError and LaunchError; others become what PyTorch makes of
// them.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_errors(pybind11::module_& m);

}  // namespace torch_slang
