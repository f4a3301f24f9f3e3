#include "op/virtual_threads.h"

#include <algorithm>
#include <atomic>

#include "backend/launch_shape.h"

namespace torch_slang {
namespace {

// What a thread should have in flight. On an H200 sqr is fastest with 8 floats, 4 doubles and, in its backward, with 4 and 2
// pairs of them; a kernel that reads 8 floats for each element, with one thread each.
constexpr int64_t kBytesInFlight = 32;
// The same where it comes in words: one of them. sqr's forward takes 0.2536 ms for 2^27 floats then, and 0.2625 with two.
constexpr int64_t kBytesInWord = 16;
constexpr int kMost = 16;
// That the lanes of a thread may have together: more would take too many registers.
constexpr int64_t kBytesInWords = 128;

// Of tiles along an axis whose threads share elements.
constexpr int kMostRepeats = 16;

std::atomic<bool> for_all{false};

}  // namespace

bool set_virtual_threads_for_all(bool value) { return for_all.exchange(value); }

// Tiles lie along the axis that has the most whole ones, the outer axis if two have as many: what threads read of a row
// or column that they share is then read once.
VirtualThreads virtual_threads(const LaunchShape& shape, uint64_t at_once, int64_t bytes, int lanes, int shared_axis) {
  VirtualThreads best;
  const uint64_t threads = threads_in_block(shape) * shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  const auto fills = [&](int count) {
    return threads >= 2 * static_cast<uint64_t>(count) * at_once || for_all.load(std::memory_order_relaxed);
  };
  while (lanes > 1 && (lanes * bytes > kBytesInWords || shape.block[0] % lanes != 0 || !fills(lanes))) lanes /= 2;
  best.count = best.lanes = lanes;
  const int64_t enough = lanes > 1 ? kBytesInWord : kBytesInFlight;
  while (best.count < kMost && best.count * bytes < enough && fills(best.count)) best.count *= 2;
  if (lanes > 1 || shared_axis >= 0) std::copy_n(shape.block, 3, best.block);
  if (shared_axis >= 0) {
    best.axis = shared_axis;
    best.shares = true;
    const auto tiles = [&](int repeats) {
      return shape.grid[shared_axis] / (static_cast<uint32_t>(repeats) * best.groups());
    };
    while (best.repeats < kMostRepeats && fills(2 * best.count * best.repeats) && tiles(best.repeats) > 1)
      best.repeats *= 2;
    return best;
  }
  double most_whole = -1;
  for (int axis = 0; axis < 3; ++axis) {
    const uint32_t blocks = shape.grid[axis];
    const uint32_t length = best.groups() * (axis == 0 ? best.lanes : 1);
    const uint32_t tiles = (blocks + length - 1) / length;
    // The last block of an axis is seldom whole, and its tile with it.
    const double whole = tiles == 0 ? 0 : static_cast<double>((blocks - 1) / length) / tiles;
    if (whole >= most_whole) {
      most_whole = whole;
      best.axis = axis;
    }
  }
  if (best.groups() == 1) best.axis = 0;
  return best;
}

}  // namespace torch_slang
