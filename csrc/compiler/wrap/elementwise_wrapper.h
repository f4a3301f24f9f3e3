// The generated entry points of plain functions: Note [elementwise functions] in program.h.
#pragma once

#include <string>

#include "compiler/reflect/describe.h"
#include "program/program.h"

namespace torch_slang {

std::string elementwise_wrapper(const DescribedFunction& function, const Instantiation& instantiation);

}  // namespace torch_slang
