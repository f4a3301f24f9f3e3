// Loops that can be stopped from outside.
#pragma once

#include <string>

namespace torch_slang {

// Slang writes every loop as `for(;;)`. It becomes `for(;TSL_POLL(file, line);)`, file and line as in TSL_AT, which asks before
// each iteration whether the launch is to stop: Note [stopped launches] in prelude/polls.h. Of loops that have a condition
// by then (Note [loop state]) it becomes the first part. To be applied after with_bounded_loops.
std::string with_polled_loops(const std::string& body);

}  // namespace torch_slang
