// Writes the constructors that Slang makes by itself into differentiable structs, for texts of second derivatives.
#pragma once

#include <string>

namespace torch_slang {

// Note [constructors]
//   `Ray r = {origin, direction}` calls a constructor that Slang has made from the struct's fields. It crashes where it
//   differentiates that one twice, and does not where the struct has the same constructor as text, which is then inlined early
//   (Note [functions inlined early] in session.h). So that is written behind the fields, in the line of the closing brace.
//     - A struct that has a constructor of its own, or members that are not understood here, stays as it is.
//     - Slang's own constructor allows more (`(Ray)0`, values of nested fields without braces), so a request may ask for
//       the source as it is (kKeepStructs).
std::string with_constructors(const std::string& source);

}  // namespace torch_slang
