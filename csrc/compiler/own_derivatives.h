// Functions with a [BackwardDerivative] of the user's own and no [ForwardDerivative]: Slang gives them a forward derivative
// of zeros, or none at all, without a word. So the forward derivative of what calls one must be refused.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace torch_slang {

// Such functions of a source text by name, and whether they are inlined early: calls of those cannot be seen.
std::map<std::string, bool> find_backward_only(std::string_view source);

// Whether the text that Slang has emitted for a kernel calls the function `name` of the source: emitted names have a number
// behind them, and those of methods their type in front.
bool calls_function(std::string_view emitted, const std::string& name);

}  // namespace torch_slang
