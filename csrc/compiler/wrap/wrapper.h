// Writes the Slang entry points through which kernels run. One has no parameters: it reads the argument block and calls the
// user's kernel or its derivative.
#pragma once

#include <string>
#include <vector>

#include "compiler/reflect/describe.h"
#include "compiler/wrap/wrapper_text.h"
#include "program/program.h"

namespace torch_slang {

std::string wrapper_source(const DescribedFunction& described, const Instantiation& instantiation);

}  // namespace torch_slang
