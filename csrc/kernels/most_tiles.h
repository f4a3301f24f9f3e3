// How many tiles one launch of a kernel that multiplies matrices may have. Any thread may call any of it.
#pragma once

#include <cstdint>

namespace torch_slang {

// A launch counts threads with 32 bits, and a tile has 256 of them: 2^24. Products of more are made in parts.
int64_t most_tiles();
// For tests: fewer, so that small products are made in parts too. Returns the limit before.
int64_t set_most_tiles(int64_t count);

}  // namespace torch_slang
