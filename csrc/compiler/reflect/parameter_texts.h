// What reflection does not tell of a function's parameters, read from the source: defaults, and whether the user wrote
// no_diff. Slang adds that itself where a type is not IDifferentiable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

struct ParameterText {
  std::string default_value;  // what stands behind `=`
  bool no_diff = false;
};

// Of each parameter of a function that is declared in or after a line of the source; nothing if there is no such function.
std::vector<ParameterText> parameter_texts(std::string_view source, int line, const std::string& function);

}  // namespace torch_slang
