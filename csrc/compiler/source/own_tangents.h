// Note [tangents of views]
//   In Slang's core the `diff` of a view has its tangent where forward derivatives run, and a forward derivative that a source
//   writes for an access reads it there. Views of order 2 have the tangent in a field of its own (Note [views of order 2] in
//   slang/view.slang), and the gradient in `diff`: such a function would read zero. What calls one is refused in forward mode
//   and for second derivatives.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// The names of the functions in these sources that use a field `diff`, or call one that does.
std::set<std::string> users_of_diff(const std::vector<const SourceCode*>& sources);

}  // namespace torch_slang
