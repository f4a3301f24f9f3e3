// Tells Slang of the pairs that a second derivative needs.
#pragma once

#include <map>
#include <string>

#include "compiler/reflect/describe.h"

namespace torch_slang {

// Note [known pairs]
//   Where a function is called, its forward derivative takes a DifferentialPair of each argument. To differentiate that once more Slang
//   looks up the differential type of the pair. It has an entry only for the pair types that a [Differentiable] function of the source
//   names; for another one it reads a null pointer and the process ends. `double f(double n[4]) { return square(n[0]); }` has a second
//   derivative only if some function names DifferentialPair<double>. So a function that nobody calls follows a module's wrappers: it
//   names the pairs of all number types, and of the types that the module's functions take and return, as the wrappers do.
std::string known_pairs(const std::map<std::string, DescribedFunction>& functions, const std::string& imported_from);

}  // namespace torch_slang
