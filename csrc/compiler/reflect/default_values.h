// Default values of parameters, as numbers. Slang's reflection knows whole numbers and numbers of single precision; the
// rest is read from the source where it is a literal: true and false, cases of enumerations, numbers like 0.1lf, and numbers
// that become a type parameter, T(0.5).
#pragma once

#include <slang.h>

#include <string>

#include "program/program.h"

namespace torch_slang {

// Fills the leaf's default_float or default_int from the function's parameter and the text of its default
// (parameter_texts.h). What cannot be told stays without: the argument is then required.
void read_default(const Function& function, slang::VariableReflection* variable, const std::string& text, Leaf& leaf);

}  // namespace torch_slang
