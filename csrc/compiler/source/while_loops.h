// Rewrites `while (condition)` to `for (; condition;)`, which Slang differentiates right, and some `do ... while`.
#pragma once

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [while loops]
//   Slang (2026.12) computes wrong gradients of a `while` whose condition is not `true`: the iteration that a `break` or `return`
//   ends has no part in the backward, and no error says so. A `continue` in a `while`, and a loop in a `while`, crash Slang. The
//   same loops written with `for` are right. So every `while` of a source becomes a `for`, in place: line numbers stay.
//   `do ... while` is right, and stays, but for one with a `continue`: where it has one iteration that ends Slang's compiler. It becomes
//   `for (bool again = true; again; again = (condition))`. A `while` in a macro is there as text: Note [hidden control flow] in hidden_flow.h.
void write_for_loops(SourceCode& code);

}  // namespace torch_slang
