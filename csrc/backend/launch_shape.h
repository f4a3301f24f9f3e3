// Words about launch shapes that both backends use in checks and messages.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"

namespace torch_slang {

uint64_t threads_in_block(const LaunchShape& shape);
std::string describe(const LaunchShape& shape);  // "grid [4, 1, 1] of blocks [256, 1, 1]"
std::string describe(const LaunchShape& shape, const Samples& samples);  // the same and ", 3 samples"

// The same blocks, all along x. Throws LaunchError if a grid's x cannot be so large.
LaunchShape in_one_row(const std::string& op, const LaunchShape& shape);

// Throws LaunchError, for instance "slang::sqr: cannot launch a grid [1, 70000, 1] of blocks [32, 1, 1]: expected the
// grid's y from 1 to 65535 on NVIDIA H100, but got 70000". `threads` limits the product of the block's dimensions.
struct LaunchLimits {
  uint64_t grid[3];
  uint64_t block[3];
  uint64_t threads;
  std::string device;
};
void check_limits(const std::string& op, const LaunchShape& shape, const LaunchLimits& limits);

}  // namespace torch_slang
