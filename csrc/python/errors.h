// Errors of C++ as Python's. Ours keep their names, torch_slang.CompileError and LaunchError; others become what PyTorch makes of
// them.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_errors(pybind11::module_& m);

// Gives Python's error, if it is what torch.ops made of an error of ours, that one's type. To be called with an error set.
void restore_own_type();

}  // namespace torch_slang
