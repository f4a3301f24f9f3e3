// The generated entry points of plain functions: Note [mapped functions] in program.h.
#pragma once

#include <string>

#include "compiler/mapped_function.h"
#include "program/program.h"

namespace torch_slang {

std::string mapped_wrapper(const Function& function, const MappedCall& call, const Instantiation& instantiation);

}  // namespace torch_slang
