// Names of files in the #line directives of emitted text, which Slang writes as they are.
#pragma once

#include <string>

namespace torch_slang {

// The text with `"` and `\` in those names escaped, as C++ compilers want them.
std::string with_escaped_line_names(const std::string& text);

}  // namespace torch_slang
