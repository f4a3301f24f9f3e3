// A pass: refuses texts whose backward computes with a value that Slang has lost.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [lost values]
//   Where Slang puts a value of the forward part behind where its backward needs it, what it writes there is nothing:
//     float3  _S6 = {};   float3  _S7 = _S6 * _S4;     (the gradient of v in `v * s`, where a loop computes s)
//   A zero that is meant is written as a number (`make_float3(0.0f)`), and what a variable holds that is set in one branch alone is
//   copied. So in Slang's backward functions a variable whose only definition is `{}`, or nothing, and that has a use as operand, or as
//   argument, of something that is computed is a lost one. In 1,667 texts of tests there was no other.
//   Throws RefusedText.
void refuse_lost_values(const EmittedCode& code);

}  // namespace torch_slang
