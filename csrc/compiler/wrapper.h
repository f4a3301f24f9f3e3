// The generated kernels without parameters that fetch everything from the argument block and call the user's kernel.
#pragma once

#include <string>
#include <vector>

#include "compiler/describe.h"
#include "program/program.h"

namespace torch_slang {

std::string entry_name(const Instantiation& instantiation);
std::string wrapper_source(const DescribedFunction& kernel, const Instantiation& instantiation);

}  // namespace torch_slang
