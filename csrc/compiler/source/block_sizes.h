// [BlockSize(128)] and [BlockSize(16, 16)] get the sizes that they leave out, as Slang wants all three.
#pragma once

#include "compiler/source/source_code.h"

namespace torch_slang {

// Attributes in Slang have all their arguments: [BlockSize(16, 16)] of the user's source becomes [BlockSize(16, 16, 1)].
void complete_block_sizes(SourceCode& code);

}  // namespace torch_slang
