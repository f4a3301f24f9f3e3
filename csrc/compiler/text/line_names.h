// A pass: escapes names of files in #line directives. Slang writes them as they are.
#pragma once

#include <string>

namespace torch_slang {

// Puts `\` before each `"` and `\` in those names, as C++ compilers want them. Counts the names.
int escape_line_names(std::string& text);

}  // namespace torch_slang
