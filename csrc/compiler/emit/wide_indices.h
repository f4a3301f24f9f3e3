// Views take indices of 32 bits. Slang converts one of 64 bits without a word, and an index of 2^32 + 2 would be 2.
#pragma once

#include <string>

namespace torch_slang {

// The text where such a conversion can be checked: TSL_VIEW_INDEX in prelude/local_index.h stands for `uint` where all that is
// converted is an index of a view. (What a user converts for other ends, as a hash, keeps its low 32 bits.)
std::string with_wide_indices(const std::string& body);

}  // namespace torch_slang
