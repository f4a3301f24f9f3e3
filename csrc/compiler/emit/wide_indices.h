// A pass over indices of 64 bits. Views take indices of 32 bits, to which Slang converts without a word: 2^32 + 2 would be 2.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// The text where such a conversion can be checked: TSL_VIEW_INDEX in prelude/local_index.h stands for `uint` where all that is
// converted is an index of a view. (What a user converts for other ends, as a hash, keeps its low 32 bits.)
void check_wide_indices(EmittedCode& code);

}  // namespace torch_slang
