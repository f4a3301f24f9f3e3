// The entry points of what program/tangents.h makes of a kernel, in a session whose library has views of order 2.
#pragma once

#include <string>

#include "compiler/reflect/describe.h"
#include "program/program.h"

namespace torch_slang {

// Of the directions Tangents and TangentsBackward.
std::string kernel_tangents_wrapper(const DescribedFunction& kernel, const Instantiation& instantiation);

}  // namespace torch_slang
