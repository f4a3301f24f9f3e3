// [BlockSize(128)] and [BlockSize(16, 16)] get the sizes that they leave out, as Slang wants all three.
#pragma once

#include <string>

namespace torch_slang {

// Attributes in Slang have all their arguments: [BlockSize(16, 16)] of the user's source becomes [BlockSize(16, 16, 1)].
std::string with_whole_block_sizes(std::string source);

}  // namespace torch_slang
