// Has aggregates that a loop changes in parts begin as new values, so that Slang does not take one variable for two.
#pragma once

#include "compiler/source/changing_functions.h"
#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [copies in loops]
//   `v.y = c; for (...) { float2 t = v; t[k] = x; }`: Slang (2026.12, 2026.16) gives v and t one variable in derivatives, since the
//   change of t is the only use of v, and so the next iteration finds in v what this one has stored (slang-ir-ssa-register-allocate.cpp:
//   `if (use->getUser() == inst) continue;`). The same happens to the beginning that v has in two branches. And much is v to Slang:
//   `(v)`, `v * 1`, `c ? v : v`, `{v}`, `float2(v)`, an element of an array of v, what an inlined function returns.
//   So in a loop of a differentiable function a variable that is changed in parts is assigned `t = tsl_copy(v)`, whatever v is
//   (slang/constants.slang): the element of an array of one, by an index that Slang does not know, is a new value. (The result of a
//   call is a new value too, but Slang's compiler ends on second derivatives of calls that return aggregates.)
//   What Slang inlines before it makes derivatives may be called in a loop: all of its body counts as one, as do its parameters that it
//   changes and what it gives its caller.
//   It stays as it is where the value names no variable, and where it is `float2(x, y)` or a list of more than one value. Numbers have no
//   parts; of an interface's values Slang crashes on generic calls; views are no copies. Loops that are unrolled are none.
void write_copies(SourceCode& code, const ChangingFunctions& changing);

}  // namespace torch_slang
