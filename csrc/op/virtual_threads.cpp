#include "op/virtual_threads.h"

#include "backend/launch_shape.h"

namespace torch_slang {
namespace {

// What a thread should have in flight. On an H200 sqr is fastest with 8 floats, 4 doubles and, in its backward, with 4 and 2
// pairs of them; a kernel that reads 8 floats for each element, with one thread each.
constexpr int64_t kBytesInFlight = 32;
constexpr int kMost = 16;

}  // namespace

// Tiles lie along the axis that has the most whole ones, the outer axis if two have as many: what threads read of a row
// or column that they share is then read once.
VirtualThreads virtual_threads(const LaunchShape& shape, uint64_t at_once, int64_t bytes) {
  VirtualThreads best;
  const uint64_t threads = threads_in_block(shape) * shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  while (best.count < kMost && best.count * bytes < kBytesInFlight &&
         threads >= 2 * static_cast<uint64_t>(best.count) * at_once)
    best.count *= 2;
  double most_whole = -1;
  for (int axis = 0; axis < 3; ++axis) {
    const uint32_t blocks = shape.grid[axis];
    const uint32_t tiles = (blocks + best.count - 1) / best.count;
    // The last block of an axis is seldom whole, and its tile with it.
    const double whole = tiles == 0 ? 0 : static_cast<double>((blocks - 1) / best.count) / tiles;
    if (whole >= most_whole) {
      most_whole = whole;
      best.axis = axis;
    }
  }
  if (best.count == 1) best.axis = 0;
  return best;
}

}  // namespace torch_slang
