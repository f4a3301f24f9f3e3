// Contexts of accesses that were not made hold nothing, rather than zeros.
#pragma once

#include <string>
#include <string_view>

namespace torch_slang {

// Note [unset contexts]
//   Where an access to a view stands behind a condition, Slang's derivative clears a context for the other case,
//     s_bwdCallableCtx_DiffTensorView_load_0 _S21 = {};  if(_S36) { _S27 = _S38; } else { _S27 = _S21; }
//   and looks at _S27 only where the access was made: through a cleared view it would reach address zero. So what
//   stands there otherwise is nobody's business, and without the zeros compilers may take it for what stands there in the first case:
//   the view's number, say, which is then a constant once more, however far the use is from the branch.
std::string with_unset_contexts(std::string_view body);

}  // namespace torch_slang
