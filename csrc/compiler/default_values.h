// Default values of parameters, as numbers. Slang's reflection knows whole numbers and numbers of single precision; the
// rest is read from the source where it is a literal: true and false, cases of enumerations, numbers like 0.1lf.
#pragma once

#include <slang.h>

#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// The text behind `=` of each parameter of a function that is declared in or after a line of the source, empty where
// there is none; nothing if there is no such function.
std::vector<std::string> default_texts(std::string_view source, int line, const std::string& function);

// Fills the leaf's default_float or default_int. What cannot be told stays without: the argument is then required.
void read_default(slang::VariableReflection* variable, const std::string& text, Leaf& leaf);

}  // namespace torch_slang
