// A pass: copies of aggregates that Slang loses at the end of branches. It repairs the text that Slang writes without optimising.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [lost copies]
//   At the end of a branch Slang 2026.12 assigns the variables that hold what the branches leave behind, all at once in
//   meaning and one after the other in text. A new value of an aggregate that differs in one element is made in place, in a
//   variable that Slang takes for free, which may be one of those (slang-ir-ssa-register-allocate.cpp, eliminate-phis.cpp):
//     if (z > 0) s.y = z * s.y; else u.y = u.y * z;   =>   else { X = u; X.y = ...;  X = s; Y = X; }
//   where Y should have got X's old value. Slang's optimiser then writes `Y = s`, as X was `s` by then, or nothing at all.
//     - Text in which a value that was made in place may be overwritten so is emitted again with the least optimisation, which
//       has `Y = X` still (emitted_kernel.h).
//     - There, a variable that is assigned X behind the assignment that overwrites X, in the same row, should have got X's old
//       value: the row is one parallel copy, as phis become. It gets a copy made before the row.
//     - But for two rows that follow each other. They are found at the beginning of a branch of gradients: then the second
//       means the new value of X. If nobody else reads the old value, the old one is meant all the same; else it cannot be told,
//       and is refused.
//     - A value of the user's and a gradient are never meant for each other (gradient_flow.h).
//     - A whole that Slang makes of its parts it assigns part by part, in their order, and to each variable that is to hold it: where two
//       are assigned the same parts, the second may have lost its copy. It is no change in place, since Slang makes
//       one of changes of all parts (slang-ir-peephole.cpp); but it does not where they are parts of parts: refused.

// Of the text that Slang emitted, optimised.
bool may_lose_copies(const EmittedCode& code);
// Of text of the least optimisation. Throws RefusedText.
void repair_lost_copies(EmittedCode& code);

}  // namespace torch_slang
