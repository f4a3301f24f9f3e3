#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_tuning(pybind11::module_& m);  // of tuning/choices.h

}  // namespace torch_slang
