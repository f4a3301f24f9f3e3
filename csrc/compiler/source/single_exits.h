// Rewrites functions that return early so that they return at their end, for derivatives in forward mode and second ones.
#pragma once

#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [single exits]
//   Slang's forward mode is wrong of some functions that return in a loop: what an `inout` parameter is set to before the `return`
//   keeps an older tangent. Where functions are inlined before derivatives are made (Note [functions inlined early] in
//   early_inlining.h) they must return at their end. So in texts of tangents each `return value;` of a differentiable function
//   becomes an assignment to a variable, a flag, and a `break` where it stands in a loop or a switch. What stands behind it is
//   computed if the flag is not set:
//
//     if (x > 0) return log(x);        { tsl_result = log(x); tsl_returned = true; } if (!tsl_returned) {
//     return 0;                        { tsl_result = 0; tsl_returned = true; } } return tsl_result;
//
//   A second derivative of a loop with a `continue` may be wrong, too: it sets a flag in the same way, and what stands behind it in
//   the loop's body is computed if that is not set.
//
//   Nothing else changes, and all lines keep their numbers. A function is left as it is where a statement is not understood (`throw`,
//   `do ... catch`). If it returns or goes on in a loop, derivatives of tangents that may call it are refused.

// A function that would need the change and is left as it is.
struct KeptExits {
  std::string function;
  std::string location;  // `file:3`, of the statement that is not understood, or of the function
  std::string statement;  // its first word; empty: the declaration is not understood
};

// Adds what is kept to `kept`, if it is given.
void write_single_exits(SourceCode& code, std::vector<KeptExits>* kept = nullptr);
// All functions that would need the change: for a source that is left as it is.
std::vector<KeptExits> all_kept_exits(const SourceCode& code);

}  // namespace torch_slang
