// Note [stores to group-shared arrays]
//   In the functions that Slang makes for a backward, a store to an element of a group-shared array has become three statements:
//     FixedArray<float, 64> _S1 = shared;   _S1[t] = v;   shared = _S1;
//   Other threads store to other elements meanwhile, and lose them: values, and gradients, were wrong without a word
//   (on GPUs; fibers of the CPU change at barriers alone). So `_S1` becomes a reference to the array. Where more happens
//   between the first and the last, or the copy is used later, the derivative is refused.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

void store_to_shared_in_place(EmittedCode& code);

}  // namespace torch_slang
