// Runs of straight-line code that adds to gradients. On a GPU the lanes of a wave may sum what a run adds together: Note [meetings]
// in prelude/meetings.h.
#pragma once

#include "compiler/emit/emitted_code.h"

namespace torch_slang {

// Puts TSL_MEET_BEGIN in front of the first addition of each run, and TSL_MEET_END behind the last one, such that every addition
// lies in a run; or does nothing if that cannot be. A run of several functions lies in the outermost one. Returns how many
// runs there are.
int mark_addition_runs(EmittedCode& code);

}  // namespace torch_slang
