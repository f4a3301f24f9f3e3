// The generated members that hold the gradients of a thread's own elements: Note [own elements] in prelude/own.h.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace torch_slang {

const char* c_name_of(ElementType type);  // as the prelude spells it: "__half"

// `struct Own { ... };`
std::string own_text(const std::vector<OwnGradient>& gradients);

}  // namespace torch_slang
