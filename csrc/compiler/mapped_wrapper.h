// The generated entry points of plain functions: Note [mapped functions] in program.h.
#pragma once

#include <string>

#include "compiler/describe.h"
#include "program/program.h"

namespace torch_slang {

std::string mapped_wrapper(const DescribedFunction& function, const Instantiation& instantiation);

}  // namespace torch_slang
