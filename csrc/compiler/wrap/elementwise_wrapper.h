// Writes the Slang entry points through which plain functions run: Note [elementwise functions] in program.h. One fetches an
// element of each argument, calls the function or its derivative, and gives the results back.
#pragma once

#include <string>

#include "compiler/reflect/describe.h"
#include "program/program.h"

namespace torch_slang {

std::string elementwise_wrapper(const DescribedFunction& function, const Instantiation& instantiation);

}  // namespace torch_slang
