// Has aggregates that a loop changes in parts begin as new values, so that Slang does not take one variable for two.
//
// Note [copies in loops]
//   `v.y = c; for (...) { float2 t = v; t[k] = x; }`: Slang (2026.12, 2026.16) gives v and t one variable in derivatives, since the
//   change of t is the only use of v, and so the next iteration finds in v what this one has stored (slang-ir-ssa-register-allocate.cpp:
//   `if (use->getUser() == inst) continue;`). The same happens to the beginning that v has in two branches. And much is v to Slang:
//   `v * 1`, `c ? v : v`, `float2(v)`, an element of an array of v, what an inlined function returns.
//   So this edit looks at the loops of each function that Slang differentiates. Where such a loop changes a part of a variable, each
//   value that the loop assigns to the variable is copied first, by the library's `tsl_copy`: it takes the element of an array of
//   one, by an index that Slang does not know. The index may be another in each iteration, else the backward would take the element
//   once, before the loop, and the loop would change that one. (The result of a call is a new value too, but Slang's compiler ends on
//   second derivatives of calls that return aggregates.)
//   A variable that is put together from parts (`float2 t; t.x = x; t.y = y; t[k] = z;`) is first assigned a copy of zeros: else Slang
//   puts the parts together before the loop. If all elements of an array are assigned, Slang makes the array of these values alone, so
//   values that are assigned to elements with known indices are copied too.
//   A function that Slang inlines before it makes derivatives may be called in a loop. So the whole body of such a function counts as
//   a loop, and the values of its `out` and `inout` parameters are copied, since the caller may change parts of them. Loops that Slang
//   unrolls do not count.
#pragma once

#include "compiler/ir/annotations.h"
#include "compiler/ir/library_calls.h"
#include "compiler/ir/module_edits.h"

namespace torch_slang {

void renew_copies_in_loops(ModuleEdits& module, const Annotations& annotations, LibraryCalls& library);

}  // namespace torch_slang
