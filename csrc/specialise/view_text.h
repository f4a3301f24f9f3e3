// Expressions of views in generated sources.
#pragma once

#include <cstdint>
#include <string>

#include "program/enumerations.h"

namespace torch_slang {

// `view`, which has the gradient of elements that are so many numbers of this type; `slots`: its first slot.
std::string gradient_view_text(const std::string& view, ElementType type, int64_t components, int slots);

}  // namespace torch_slang
