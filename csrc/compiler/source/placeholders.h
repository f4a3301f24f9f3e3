// Puts the values of defines in place of %NAME%. Kernels of old slangtorch programs name their defines so.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace torch_slang {

// The text with %NAME% replaced by the value of each define NAME, where `%` cannot be the remainder: nothing that could be
// its left operand stands before it. Strings, comments and the numbers of lines stay.
std::string fill_placeholders(const std::string& text, const std::vector<std::pair<std::string, std::string>>& defines);

}  // namespace torch_slang
