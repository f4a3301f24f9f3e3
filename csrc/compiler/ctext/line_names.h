// A pass: escapes names of files in #line directives. Slang writes them as they are.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// Puts `\` before each `"` and `\` in those names, as C++ compilers want them. Counts the names.
int escape_line_names(Code& code);

}  // namespace torch_slang
