// What Module callables do with tensors and Python cannot do as well.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_tensors(pybind11::module_& m);

}  // namespace torch_slang
