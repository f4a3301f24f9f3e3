// Types of elements, once those of type parameters are known.
#pragma once

#include <vector>

#include "program/program.h"

namespace torch_slang {

// The concrete type of a leaf's element under these type arguments.
ElementType element_type(const Element& element, const std::vector<ElementType>& types);

// The type that replicated and recorded gradients of this type are added up in.
ElementType summing_type(ElementType type);

}  // namespace torch_slang
