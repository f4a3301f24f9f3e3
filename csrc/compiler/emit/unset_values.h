// A pass: variables that Slang's text declares without a value and may read before anything is stored there begin as zero.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [unset values]
//   The tangent of a variable that holds a constant (0, `detach(x)`, an integer) is zero, and Slang has no value for it where the variable is
//   passed as `inout`: in the text of the least optimisation it writes a variable that has none,
//     DiffPair_double_0 _S31;  (&_S31)->primal_0 = 0.0;  double _S32;  (&_S31)->differential_0 = _S32;
//   where the optimised text has zero. So each such variable of Slang's own gets `= {}`: those with a use, whole or by a field, that
//   some path reaches without a definition; and a pair of which one half alone was defined when it is used. What a branch or a call may have
//   stored counts as a definition on that path. Contexts stay as they are: Note [unset contexts].
// Counts by its edits.
void set_unset_values(EmittedCode& code);

}  // namespace torch_slang
