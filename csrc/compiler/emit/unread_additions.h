// A pass: atomic additions whose result nobody reads. A user's `sums.InterlockedAdd(i, x, before)` need not be atomic by itself:
// on a GPU the lanes of a wave sum it first, as they sum gradients (Note [wave sums] in prelude/wave_sums.h).
#pragma once

#include "compiler/emit/emitted_code.h"

namespace torch_slang {

// *((&before_0)) = atomicAdd((sums_0).data_ptr_at<float>((i_0)), (x_0));   =>   tsl_add_only((sums_0)....);
// for numbers with a point, where `before_0` is a local variable that nothing else of the function names but such additions. Returns how many there are.
int mark_unread_additions(EmittedCode& code);

}  // namespace torch_slang
