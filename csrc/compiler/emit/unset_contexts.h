// A pass: contexts of accesses to views that were not made are left unset, where Slang clears them. Compilers then see
// through the branches around them.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// Note [unset contexts]
//   Where an access to a view stands behind a condition, Slang's derivative clears a context for the other case,
//     s_bwdCallableCtx_DiffTensorView_load_0 _S21 = {};  if(_S36) { _S27 = _S38; } else { _S27 = _S21; }
//   and looks at _S27 only where the access was made: through a cleared view it would reach address zero. So its value in the
//   other case does not matter, and without the zeros compilers may assume the first case's value:
//   the view's number, say, which is then a constant once more, however far the use is from the branch. With the zeros, the backward
//   of a forward derivative with four operations on matrices took g++ 100 s: each access had code for every view.
// Counts the contexts.
int unset_contexts(Code& code);

}  // namespace torch_slang
