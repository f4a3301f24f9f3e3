// A pass: branches on one condition that follow each other become one branch. Compilers then see that the second is taken only
// after the first.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [joined branches]
//   Slang's derivative of a branch `if (i < n)` comes in two parts, both behind the same condition:
//     if(_S28) { _S29 = context; } else { _S29 = nothing; }  if(_S28) { backward(&_S29); }
//   That no thread reaches `backward` with `nothing` is for the compiler to find out, by following each way through the
//   first branch into the second, and with more than a few contexts, each with all that a view knows, it gives up: then
//   indices are no longer seen to be the thread's own (Note [own elements] in own.h). So the two are put together:
//     if(_S28) { _S29 = context; backward(&_S29); } else { _S29 = nothing; }
//   which is the same, whatever stands in them, as long as the condition is a variable that the first does not change.
//   Slang's names are unique in the whole text, so those of the two do not collide. A little that stands between goes into
//   both ways, unless it calls anything: threads may have to do that together.
// Counts the branches that others took in.
int join_branches(EmittedCode& code);

}  // namespace torch_slang
