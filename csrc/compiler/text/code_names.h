// Collects the names that the code of a source uses. Whether an attribute or a macro is there is asked of them, not of the text.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "compiler/text/code.h"

namespace torch_slang {

using NameSet = std::set<std::string, std::less<>>;

// Adds the identifiers of the text's code, and of its directives but #line. Comments and strings are no code.
void add_code_names(std::string_view text, NameSet& names);
void add_code_names(const Code& code, NameSet& names);

}  // namespace torch_slang
