// Host functions as Python sees them: names, plain descriptions, calls with flat components.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "module/module.h"

namespace torch_slang {

void bind_host_functions(pybind11::class_<Module, std::shared_ptr<Module>>& module);

}  // namespace torch_slang
