// Runs of straight-line code that adds to gradients several times. On a GPU what they add may be summed by the lanes of a wave
// together: Note [meetings] in prelude/meetings.h.
#pragma once

#include "compiler/emit/emitted_code.h"

namespace torch_slang {

// Puts TSL_MEET_BEGIN in front of each such run, and TSL_MEET_END behind its last addition. Returns how many there are.
int mark_addition_runs(EmittedCode& code);

}  // namespace torch_slang
