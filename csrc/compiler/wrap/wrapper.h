// The generated kernels without parameters that fetch everything and call the user's kernel or plain function.
#pragma once

#include <string>
#include <vector>

#include "compiler/reflect/describe.h"
#include "compiler/wrap/wrapper_text.h"
#include "program/program.h"

namespace torch_slang {

std::string wrapper_source(const DescribedFunction& described, const Instantiation& instantiation);

}  // namespace torch_slang
