// Reads from the source what reflection does not tell of parameters: default values, and whether the user wrote no_diff. (Slang
// adds no_diff itself where a type is not IDifferentiable.)
#pragma once

#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

struct ParameterText {
  std::string default_value;  // the text behind `=`
  bool no_diff = false;
};

// Of each parameter of a function that is declared in or after a line of the source; nothing if there is no such function.
std::vector<ParameterText> parameter_texts(const SourceCode& source, int line, const std::string& function);

}  // namespace torch_slang
