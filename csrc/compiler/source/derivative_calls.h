// Calls of derivatives and variables of interfaces that Slang's compiler does not take: part of crash_hints.h.
#pragma once

#include <functional>
#include <vector>

#include "compiler/source/declared_floats.h"

namespace torch_slang {

// Says of each place what it is and what to write instead. `all`: the source's functions; `called`: those that are looked at.
void find_derivative_calls(const SourceCode& code, const std::vector<SourceFunction>& all,
                           const std::vector<SourceFunction>& called,
                           const std::function<void(size_t at, const char* what)>& say);

}  // namespace torch_slang
