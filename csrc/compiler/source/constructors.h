// Writes the constructors that Slang makes by itself into differentiable structs, for texts of second derivatives.
#pragma once

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [constructors]
//   `Ray r = {origin, direction}` calls a constructor that Slang has made from the struct's fields. It crashes where it
//   differentiates that one twice, and does not where the same constructor is there as text and inlined before derivatives are
//   made. So that is written behind the struct, in the line of its closing brace.
//     - It ranks above Slang's own, and stands in an extension: in the struct it would take other forms away (`(Ray)0`,
//       lists in lists).
//     - A struct that has a constructor of its own, or members that are not understood here, stays as it is, and so does
//       one that is declared in another.
//     - If that does not compile, a request may ask for the source as it is (kKeepStructs).
void write_constructors(SourceCode& code);

}  // namespace torch_slang
