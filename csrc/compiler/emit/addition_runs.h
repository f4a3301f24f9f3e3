// A run is straight-line code with several additions to gradients. On a GPU the lanes of a wave sum all additions of a run at
// its end: Note [wave sums] in prelude/wave_sums.h.
#pragma once

#include "compiler/emit/emitted_code.h"

namespace torch_slang {

// Puts TSL_SUMS_BEGIN(numbers, sizes); in front of the first addition of each run, and TSL_SUMS_END(numbers, sizes); behind the
// last one: whoever comes to the one comes to the other, and makes all additions between them. Bit n of `sizes`: the run
// has elements of n numbers. A run of several functions lies in the outermost one. Returns how many runs there are. Additions
// that lie in none are right too; where there are any, runs begin with TSL_SUMS_BEGIN_BESIDE.
// Additions of the user's own (tsl_add_only) lie in runs as well, which then end with TSL_SUMS_END_SEEN, before anything that
// may read what they add to.
int mark_addition_runs(EmittedCode& code);

}  // namespace torch_slang
