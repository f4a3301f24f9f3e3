// Slang's copies of aggregates at the end of branches.
#pragma once

#include "compiler/emitted_code.h"

namespace torch_slang {

// Note [lost copies]
//   At the end of a branch Slang 2026.12 assigns the variables that hold what the branches leave behind, all at once in
//   meaning and one after the other in text. A new value of an aggregate that differs in one element is made in place, in a
//   variable that Slang takes for free, which may be one of those (slang-ir-ssa-register-allocate.cpp, eliminate-phis.cpp):
//     if (z > 0) s.y = z * s.y; else u.y = u.y * z;   =>   else { X = u; X.y = ...;  X = s; Y = X; }
//   where Y should have got what X was before. The optimiser then writes `Y = s`, as X was `s` by then.
//   So where the new value in X is overwritten and nobody has read it, it was lost, and the variable that is assigned X, or
//   the same as X, right behind should have got it: it gets a copy that is made before.
//   Unclear: somebody did read it, and a variable is assigned the same as X right behind; that may be meant. In text of
//   the least optimisation, `Y = X` says what is meant.
bool may_lose_copies(const std::string& text);
void repair_lost_copies(EmittedCode& code);

}  // namespace torch_slang
