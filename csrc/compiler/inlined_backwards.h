// Backwards that users write and have inlined.
#pragma once

#include <string>

namespace torch_slang {

// Note [inlined backwards]
//   [ForceInline] puts a backward that the user has written into the backward functions that Slang makes, which are searched
//   for gradients that it assigns and should add (Note [added gradients]). What a user assigns is meant, but looks the same
//   there. So where the source names a function in [BackwardDerivative(...)], or says [BackwardDerivativeOf(...)] of it, its
//   [ForceInline] goes. The device's compiler inlines it all the same. Lines and columns stay.
std::string without_inlined_backwards(std::string source);

}  // namespace torch_slang
