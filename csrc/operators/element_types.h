// Types and sizes of elements, once type and size parameters are known.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// The concrete type of a leaf's element under these type arguments.
ElementType element_type(const Element& element, const std::vector<ElementType>& types);

// The numbers in an element. `sizes`: by size parameter.
int64_t component_count(const Element& element, const std::vector<int64_t>& sizes);

// The type that replicated and recorded gradients of this type are added up in.
ElementType summing_type(ElementType type);

}  // namespace torch_slang
