// Launches of kernels straight from Python's arguments, where nothing needs Python's own judgement.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_launch_call(pybind11::module_& m);

}  // namespace torch_slang
