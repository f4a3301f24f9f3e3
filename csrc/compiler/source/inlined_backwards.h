// Takes [ForceInline] from backwards that users write. Inlined, they would look like Slang's own.
#pragma once

#include "compiler/source/source_code.h"
#include "compiler/text/code_names.h"

namespace torch_slang {

// Note [inlined backwards]
//   [ForceInline] puts a backward that the user has written into the backward functions that Slang makes, which are searched
//   for gradients that it assigns and should add (Note [added gradients]). What a user assigns is meant, but looks the same
//   there. So where this source, or one that was read before it, names a function in [BackwardDerivative(...)], or says
//   [BackwardDerivativeOf(...)] of it, its [ForceInline] goes; where macros have a part in it, so does every other one. The
//   device's compiler inlines it all the same. Lines and columns stay.
// `backwards`: the names that sources have given so far.
void keep_backwards_calls(SourceCode& code, NameSet& backwards);

}  // namespace torch_slang
