// Calls of operators of torch.ops straight from Python's arguments, where nothing needs torch.ops' own judgement.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_slang {

void bind_operator_call(pybind11::module_& m);

}  // namespace torch_slang
