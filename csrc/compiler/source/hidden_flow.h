// Tells where macros, or conditions of the preprocessor, hide control flow, or what has a derivative, from the changes that are made
// to sources.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [hidden control flow]
//   Loops and early returns are rewritten in the text of a source (Note [while loops], Note [single exits]), so they must be there
//   as text, and each brace must have its own. So must `struct`, `no_diff` and the like (Note [undeclared structs], Note [constant
//   calls]). A macro's definition hides them if it has one of these, or statements, braces or [Differentiable]. A condition (`#if`) hides them if it stands inside of braces, or has one brace without the
//   other. Where a used macro or a condition hides something, the changes are made to what Slang's own preprocessor makes of the file
//   and of all that it includes (preprocessor.h). Other files are changed as they are written.
bool hides_control_flow(const std::vector<const SourceCode*>& sources,
                        const std::vector<std::pair<std::string, std::string>>& defines);

}  // namespace torch_slang
