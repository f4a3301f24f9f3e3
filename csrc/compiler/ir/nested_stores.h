// Stores to an element inside an element, made stores to a copy of the outer one.
//
// Note [nested stores]
//   `b[i][j] = v` and `b[i].x = v` are one store to Slang. Its derivative may lose an index of the place (emit/missing_names.h), or which
//   part of the element it was (emit/lost_parts.h); the text is then refused. So where a text is refused, Slang is asked once more, with
//   the stores of the module's file as one would write them by hand: `T t = b[i]; t[j] = v; b[i] = t;`. Copies take registers, so texts
//   that are right without them have none. Only variables and `out` and `inout` parameters are changed so, which nobody else sees
//   meanwhile.
//
// Note [mixed stores]
//   Where stores to all elements of an array follow each other, Slang takes the array for one made of the values that are stored
//   (slang-ir-peephole.cpp, `UpdateElement`). It forgets that one of them may be the value of a part: behind `v[1].x = a; v[0] = b;` the
//   array of two is {b, a}. C++ says no to most such texts, but not to all: `{b, a}` may give the rest of the element zeros. So in an
//   array that has stores to whole elements and to parts of elements, the latter are taken apart at once. Elements go by constant
//   indices; those of a loop that is unrolled become constant later.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void take_nested_stores_apart(ModuleEdits& module);
// Takes apart only the stores of Note [mixed stores].
void take_mixed_stores_apart(ModuleEdits& module);

}  // namespace torch_slang
