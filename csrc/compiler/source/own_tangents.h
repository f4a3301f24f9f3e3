// Note [tangents of views]
//   In Slang's core the `diff` of a view has its tangent where forward derivatives run, and a forward derivative that a source
//   writes for an access reads it there. Views of order 2 have the tangent in a field of its own (Note [views of order 2] in
//   slang/view.slang), and the gradient in `diff`: such a function would read zero. What calls one is refused in forward mode
//   and for second derivatives.
#pragma once

#include <set>
#include <string>

namespace torch_slang {

// Adds the names of the functions in this text whose [ForwardDerivative] uses a field `diff`; an empty one where the function
// is not named beside it.
void add_functions_with_own_tangents(const std::string& text, std::set<std::string>& functions);

}  // namespace torch_slang
