// Two passes over contexts, the structs in which the forward part of a derivative keeps values for the backward part. One makes
// reads cheap, the other repairs contexts of backwards that users write.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [context reads]
//   Text of the least optimisation copies whole members of the context, arrays of all iterations of a loop among them, to
//   read one element: `FixedArray<double2, 5> _S7 = (&_S1->value1_0)->value2_0; ... _S7[i].x`. Slang's optimised text has
//   `(&_S1->value1_0)->value2_0[i].x` there, which is what the other passes know, and what costs nothing. A copy may be copied
//   again.
void read_contexts_in_place(EmittedCode& code);

// Note [contexts of hand-written backwards]
//   The context of a function with a [BackwardDerivative] holds its arguments. Of an `inout` argument Slang 2026.12 declares
//   the value there and stores the address, `(&context)->_S1 = &_S21`: no compiler takes that. The variable is a copy that
//   was made before the call, so its value is meant.
void store_values_in_contexts(EmittedCode& code);

}  // namespace torch_slang
