// Functions with a [BackwardDerivative] of the user's own and no [ForwardDerivative]: Slang would give them a forward
// derivative of zeros without a word, so whatever may use one must be refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_slang {

// The name of the first such function in a source text.
std::optional<std::string> find_backward_only(std::string_view source);

}  // namespace torch_slang
