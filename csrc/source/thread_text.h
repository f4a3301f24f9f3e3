// The generated types that hold what threads keep in registers: Note [own elements] in prelude/own.h and Note [vector accesses] in
// prelude/vector_access.h.
#pragma once

#include <string>
#include <vector>

#include "source/kernel_source.h"

namespace torch_slang {

const char* c_name_of(ElementType type);  // as the prelude spells it: "__half"

bool has_few_elements(const std::vector<ThreadView>& views);  // of which sums are kept

// `struct Own { ... };`, `struct TslVectors { ... };` where threads come in lanes, and `struct TslShared { ... };` where they share
// or keep sums of few elements.
std::string thread_text(const std::vector<ThreadView>& views, const VirtualThreads& threads);

}  // namespace torch_slang
