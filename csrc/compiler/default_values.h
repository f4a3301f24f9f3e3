// Default values of parameters, as numbers. Slang's reflection knows whole numbers and numbers of single precision; the
// rest is read from the source: true and false, cases of enumerations, constant expressions (constants.h).
#pragma once

#include <slang.h>

#include "compiler/parameter_texts.h"
#include "program/program.h"

namespace torch_slang {

// Fills the leaf's default_float or default_int from the parameter and its text. What cannot be told stays without: the
// argument is then required.
void read_default(slang::VariableReflection* variable, const ParameterText& text, Leaf& leaf);

}  // namespace torch_slang
