// Stores to an element inside an element, made stores to a copy of the outer one.
//
// Note [nested stores]
//   `b[i][j] = v` and `b[i].x = v` are one store to Slang. Its derivative may lose an index of the place (emit/missing_names.h), or which
//   part of the element it was (emit/refused_lost_parts.h); the text is then refused. So where a text is refused, Slang is asked once more, with
//   the stores of the module's file as one would write them by hand: `T t = b[i]; t[j] = v; b[i] = t;`. Copies take registers, so texts
//   that are right without them have none. Only variables and `out` and `inout` parameters are changed so, which nobody else sees
//   meanwhile.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void take_nested_stores_apart(ModuleEdits& module);

}  // namespace torch_slang
