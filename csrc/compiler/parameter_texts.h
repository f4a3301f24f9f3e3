// What reflection does not tell of a function's parameters, read from the source: defaults, and whether the user wrote
// no_diff. Slang adds that itself where a type is not IDifferentiable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/constants.h"
#include "program/program.h"

namespace torch_slang {

struct ParameterText {
  std::string default_value;  // what stands behind `=`
  std::optional<Constant> constant;  // its value, if it has one by itself
  bool no_diff = false;
};

// Of each parameter of a function that is declared in or after a line of the source; nothing if there is no such function.
// Constants of the function's type parameters are computed in double.
std::vector<ParameterText> parameter_texts(std::string_view source, int line, const std::string& function,
                                           const std::vector<TypeParameter>& type_parameters);

}  // namespace torch_slang
