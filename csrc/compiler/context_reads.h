// Backwards read what they need of their context where it lies.
#pragma once

#include "compiler/emitted_code.h"

namespace torch_slang {

// Note [context reads]
//   Text of the least optimisation copies whole members of the context, arrays of all iterations of a loop among them, to
//   read one element: `FixedArray<double2, 5> _S7 = (&_S1->value1_0)->value2_0; ... _S7[i].x`. Slang's optimised text has
//   `(&_S1->value1_0)->value2_0[i].x` there, which is what the other passes know, and what costs nothing.
void read_contexts_in_place(EmittedCode& code);

}  // namespace torch_slang
