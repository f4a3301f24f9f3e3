// Has aggregates that a loop changes in parts begin as new values, so that Slang does not take one variable for two.
//
// Note [copies in loops]
//   `v.y = c; for (...) { float2 t = v; t[k] = x; }`: Slang (2026.12, 2026.16) gives v and t one variable in derivatives, since the
//   change of t is the only use of v, and so the next iteration finds in v what this one has stored (slang-ir-ssa-register-allocate.cpp:
//   `if (use->getUser() == inst) continue;`). The same happens to the beginning that v has in two branches. And much is v to Slang:
//   `v * 1`, `c ? v : v`, `float2(v)`, an element of an array of v, what an inlined function returns.
//   So in loops of functions that Slang differentiates, what is stored in a variable that is changed in parts is a new value: the
//   element of an array of one, by an index that Slang does not know, and that may be another each time (`tsl_first`,
//   slang/constants.slang): else the backward would take the element once, before the loop, and the loop would change that.
//   (The result of a call is a new value too, but Slang's compiler ends on second derivatives of calls that return aggregates.)
//   A variable that is put together from parts (`float2 t; t.x = x; t.y = y; t[k] = z;`) begins with a new value of zeros: else Slang
//   puts the parts together before the loop. Of an array whose elements are all assigned Slang makes one of the values, and so the
//   values that are assigned to known elements are new ones too.
//   What Slang inlines before it makes derivatives may be called in a loop: all of its body counts as one, and what it stores in
//   `out` and `inout` parameters may be changed by its caller. Loops that Slang unrolls are none.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void renew_copies_in_loops(ModuleEdits& module);

}  // namespace torch_slang
