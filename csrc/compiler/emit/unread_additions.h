// A pass: atomic additions whose result nobody reads. A user's `sums.InterlockedAdd(i, x, before)` is
// summed first by the lanes of a GPU's wave, as gradients are (Note [wave sums] in prelude/wave_sums.h).
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// *((&before_0)) = atomicAdd((sums_0).data_ptr_at<float>((i_0)), (x_0));   =>   tsl_add_only((sums_0)....);
// for floating-point numbers, where `before_0` is a local variable that nothing else in the function names but such additions.
// Returns how many there are.
int write_unread_additions(EmittedCode& code);

}  // namespace torch_slang
