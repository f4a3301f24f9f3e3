// A pass: loops ask before each iteration whether the launch was stopped. Ctrl-C and time limits work by it.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// Slang writes every loop as `for(;;)`. It becomes `for(;TSL_POLL(file, line);)`, file and line as in TSL_AT, which asks before
// each iteration whether the launch is to stop: Note [stopped launches] in prelude/polls.h. Of loops that have a condition
// by then (Note [loop state]) it becomes the first part, as of `while(true)`. To be applied after bound_loops.
int poll_loops(Code& code);

}  // namespace torch_slang
