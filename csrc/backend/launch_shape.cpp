#include "backend/launch_shape.h"

#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr char kAxes[] = {'x', 'y', 'z'};

std::string list(const uint32_t (&sizes)[3]) {
  return "[" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " + std::to_string(sizes[2]) + "]";
}

void check_axes(const std::string& op, const LaunchShape& shape, const char* what, const uint32_t (&sizes)[3],
                const uint64_t (&limits)[3], const std::string& device) {
  for (int axis = 0; axis < 3; ++axis) {
    if (sizes[axis] >= 1 && sizes[axis] <= limits[axis]) continue;
    throw_launch_error(op, ": cannot launch a ", describe(shape), ": expected ", what, " ", kAxes[axis], " from 1 to ",
                       limits[axis], " on ", device, ", but got ", sizes[axis]);
  }
}

}  // namespace

uint64_t threads_in_block(const LaunchShape& shape) {
  return uint64_t{shape.block[0]} * uint64_t{shape.block[1]} * uint64_t{shape.block[2]};
}

std::string describe(const LaunchShape& shape) {
  return "grid " + list(shape.grid) + " of blocks " + list(shape.block);
}

std::string describe(const LaunchShape& shape, const Samples& samples) {
  return describe(shape) + ", " + std::to_string(samples.count()) + " samples";
}

LaunchShape in_one_row(const std::string& op, const LaunchShape& shape) {
  constexpr double kMost = 0x7fffffff;
  const double blocks = static_cast<double>(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  if (blocks > kMost) {
    throw_launch_error(op, ": cannot launch a ", describe(shape), ": expected at most ", static_cast<int64_t>(kMost),
                       " blocks together, but got ", static_cast<int64_t>(blocks));
  }
  LaunchShape row = shape;
  row.grid[0] = static_cast<uint32_t>(blocks);
  row.grid[1] = row.grid[2] = 1;
  return row;
}

void check_limits(const std::string& op, const LaunchShape& shape, const LaunchLimits& limits) {
  check_axes(op, shape, "the grid's", shape.grid, limits.grid, limits.device);
  check_axes(op, shape, "the block's", shape.block, limits.block, limits.device);
  if (threads_in_block(shape) > limits.threads) {
    throw_launch_error(op, ": cannot launch a ", describe(shape), ": expected at most ", limits.threads,
                       " threads a block on ", limits.device, ", but got ", threads_in_block(shape));
  }
}

}  // namespace torch_slang
