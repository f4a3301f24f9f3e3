// Loop counters whose first value is computed, hidden from Slang's derivatives, which lose that value.
//
// Note [computed beginnings]
//   Slang keeps no counter that steps by a constant: its backward computes `begin + step * iteration`. Where the beginning is no
//   constant, nothing carries it from the forward part to the backward (slang-ir-autodiff-primal-hoist.cpp, applyToInst, uses
//   counterOffset without putting it among the values to keep). If it is the result of a call, as `crow[r]` is, Slang
//   crashes; else the text names a variable that stands nowhere; a counter of 64 bits is computed in 32. So in a module's
//   serialized instructions such a counter is stepped by `~~i + 1`, which is not taken for a step by a constant. The counter
//   is then kept for each iteration, as any other value of a loop is, and the device's compiler drops the two complements.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void hide_steps_of_computed_beginnings(ModuleEdits& module);

}  // namespace torch_slang
