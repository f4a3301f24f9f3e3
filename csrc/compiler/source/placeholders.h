// Puts the values of defines in place of %NAME%. Kernels of old slangtorch programs name their defines so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Replaces %NAME% by the value of each define NAME, where `%` cannot be the remainder: nothing that could be
// its left operand stands before it. Strings, comments and the numbers of lines stay.
void fill_placeholders(SourceCode& code, const std::vector<std::pair<std::string, std::string>>& defines);

}  // namespace torch_slang
