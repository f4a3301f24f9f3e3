// Errors of C++ as Python's.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

namespace torch_slang {

// Ours keep their names: torch_slang.CompileError and LaunchError. All others become what PyTorch makes of them.
void set_python_error(const std::exception_ptr& error);

void bind_errors(pybind11::module_& m);

}  // namespace torch_slang
