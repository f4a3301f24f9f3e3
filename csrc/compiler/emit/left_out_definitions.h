// A pass over host functions: takes out the definitions of refused functions, which may be no valid C++.
#pragma once

#include <set>
#include <string>

#include "compiler/text/code.h"

namespace torch_slang {

// A definition is `SLANG_PRELUDE_EXPORT type name(...) { ... }`; lines keep their numbers by the directives that follow.
// Counts the definitions.
int leave_out_definitions(Code& code, const std::set<std::string>& names);

}  // namespace torch_slang
