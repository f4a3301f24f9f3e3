// Functions of narrower floating-point types as the same functions of float64: the descriptor, and the words of the emitted text.
// An audit compares derivatives of these, in which rounding hides nothing and central differences have digits. What depends on
// the bits of a float (asuint) does not compile then.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace torch_slang::audit {

// float16 and float32 of leaves become float64; bfloat16 stays.
Function in_double(Function function);
std::string in_double(std::string_view body);

}  // namespace torch_slang::audit
