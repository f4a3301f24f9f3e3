// Has a loop that copies an aggregate make a new value, so that Slang does not take one variable for both.
#pragma once

#include "compiler/source/changing_functions.h"
#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [copies in loops]
//   `v.y = c; for (...) { float2 t = v; t[k] = x; }`: Slang (2026.12, 2026.16) gives v and t one variable in derivatives, since the
//   change of t is the only use of v, and so the next iteration finds in v what this one has stored (slang-ir-ssa-register-allocate.cpp:
//   `if (use->getUser() == inst) continue;`). The same happens to the beginning that v has in two branches. So in a loop of a
//   differentiable function `t = v` becomes `t = tsl_copy(v)` (slang/constants.slang): the element of an array of one, by an index
//   that Slang does not know, is a new value. (The result of a call is a new value too, but Slang's compiler ends on second
//   derivatives of calls that return aggregates.)
//   What Slang inlines before it makes derivatives may be called in a loop: all of its body counts as one, as do its parameters that it
//   changes and those that it returns.
//   `t = v` stays as it is where v is a number; where v is declared with an expression and never changed; and where the same iteration
//   declares v, not as a copy. It also stays where v is an interface's value, since Slang crashes on generic calls with one. Loops that are unrolled are none.
//   Copies of other forms are not seen: `t = (v)`, `t = float2(v)`, `t = c ? v : w`, an element of an array of v.
void write_copies(SourceCode& code, const ChangingFunctions& changing);

}  // namespace torch_slang
