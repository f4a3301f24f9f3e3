// Tells Slang of the pairs that a second derivative needs.
#pragma once

#include <map>
#include <string>

#include "compiler/reflect/describe.h"

namespace torch_slang {

// Note [known pairs]
//   Where a function is called, its forward derivative takes a DifferentialPair of each argument. The derivative of that asks what the
//   differential of the pair is, which Slang notes only of pair types that a [Differentiable] function of the source names. Of others it
//   reads an answer that is not there, and ends: `double f(double n[4]) { return square(n[0]); }` has a second derivative if some
//   function names DifferentialPair<double>. So behind a module's wrappers stands a function, which nobody calls, that names the pairs of
//   all numbers, and of the types that the module's functions take and return.
std::string known_pairs(const std::map<std::string, DescribedFunction>& functions, const std::string& imported_from);

}  // namespace torch_slang
