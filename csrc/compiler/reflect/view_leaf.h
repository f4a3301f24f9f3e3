// A view as a leaf: what its elements are, and how its gradient is gathered.
#pragma once

#include <slang.h>

#include "compiler/reflect/types.h"
#include "program/program.h"

namespace torch_slang {

// Fills a leaf that has its name, path and type. `type`: a TensorView, a DiffTensorView, or a tensor of SlangPy's.
// `differentiable`: somebody may ask for the gradient of a view that has one.
void fill_view(Function& function, Leaf& leaf, slang::TypeReflection* type, const TypeReader& types,
               bool differentiable);

}  // namespace torch_slang
