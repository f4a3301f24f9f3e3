// Stores to parts of an array's elements, made stores to copies of the elements where others store to whole elements.
//
// Note [mixed stores]
//   Where stores to all elements of an array follow each other, Slang takes the array for one made of the values that are stored
//   (slang-ir-peephole.cpp, `UpdateElement`). It forgets that one of them may be the value of a part: behind `v[1].x = a; v[0] = b;` the
//   array of two is {b, a}. C++ says no to most such texts, but not to all: `{b, a}` may give the rest of the element zeros. So in an
//   array that has stores to whole elements and to parts of elements, the latter are taken apart at once, as are the stores of
//   Note [nested stores] where a text is refused. Elements go by constant indices. The indices of a loop that is to be unrolled become
//   constant when Slang unrolls it, so in its function any index counts.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void take_mixed_stores_apart(ModuleEdits& module);

}  // namespace torch_slang
