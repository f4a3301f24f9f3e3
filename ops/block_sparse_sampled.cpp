// The blocks of a dense product that a pattern has: which of three kernels makes them.
//   gathered  on Hopper, of halves: tiles of 128 rows and the columns where these have blocks (block_sparse_gathered.slang)
//   masked    all of the product, of which the blocks are stored (block_sparse_masked.slang)
//   sampled   a tile or more for each block (block_sparse.slang)
#include "backend/backend.h"
#include "block_sparse.h"
#include "kernels/most_tiles.h"

#include <algorithm>

namespace torch_slang::block_sparse {
namespace {

constexpr const char* kOp = "block_sparse_sdd";

const RegisteredFamily& family_named(const std::string& name) {
  const RegisteredFamily* const found = find_family("slang", name);
  TORCH_CHECK(found != nullptr, "slang::", kOp, ": its kernel slang::", name, " is not there");
  return *found;
}

int64_t parts(int64_t size, int64_t of_part) { return (size + of_part - 1) / of_part; }

struct Grid {
  int64_t rows, columns;
};

// Blocks of 128 are tiles of their own; of these, gathered ones are faster only where most of their elements are wanted.
bool should_gather(const Tensor& a, const Tensor& b, int64_t count, Grid grid, at::IntArrayRef block) {
  if (!a.is_cuda() || a.element_size() != 2 || !backend_for(c10::kCUDA).multiplies_lines(a.device())) return false;
  if (!product::lies_in_words(a) || !product::lies_in_words(b)) return false;
  if (std::min(block[0], block[1]) == 128 && 5 * count < 2 * grid.rows * grid.columns) return false;
  return a.size(0) * parts(grid.rows * block[0], 128) * parts(grid.columns * block[1], 128) <= most_tiles();
}

Tensor gathered_blocks(const Tensor& a, const Tensor& b, const Pattern& pattern, Grid grid, at::IntArrayRef block) {
  const Lines rows = pattern.rows();
  const int64_t count = rows.depths.size(0), height = 128 / block[0];
  const c10::IValue places[] = {rows.offsets, pattern.row_of_block(), rows.depths, grid.columns, height, block[1]};
  static const RegisteredFamily& groups_kernel = family_named("block_sparse_groups");
  const Results made = groups_kernel.current()->run(OpKind::Forward, places);
  const Tensor &numbers = made[0], &groups = made[1];
  const c10::IValue arguments[] = {a, b, numbers, groups, groups.view(-1), count, block[0], block[1]};
  static const RegisteredFamily& kernel = family_named("block_sparse_gathered");
  return kernel.current()->run(OpKind::Forward, arguments)[0];
}

// Whether tiles of their own, of 64 x 64 or more, would cost the blocks more than large tiles do that make the whole product.
bool has_too_many_blocks(const Tensor& a, int64_t count, Grid grid, at::IntArrayRef block) {
  const int64_t all = grid.rows * block[0] * grid.columns * block[1];
  if (!a.is_cuda() || a.size(0) * (all / (64 * 64) + grid.rows + grid.columns) > most_tiles()) return false;
  return count * std::max<int64_t>(block[0], 64) * std::max<int64_t>(block[1], 64) > all;
}

Tensor masked_blocks(const Tensor& a, const Tensor& b, const Pattern& pattern, Grid grid, at::IntArrayRef block) {
  const Lines rows = pattern.rows();
  const c10::IValue places[] = {rows.offsets, rows.depths, grid.columns};
  static const RegisteredFamily& numbers_kernel = family_named("block_sparse_numbers");
  const Tensor numbers = numbers_kernel.current()->run(OpKind::Forward, places)[0];
  static const auto kernels = kernels_named(kOp, "block_sparse_masked");
  const c10::IValue arguments[] = {a, b, numbers, rows.depths.size(0), block[0], block[1]};
  return kernels.of(a).current()->run(OpKind::Forward, arguments)[0];
}

}  // namespace

Tensor sampled_blocks(const Tensor& a, const Tensor& b, const Pattern& pattern, at::IntArrayRef block_shape) {
  const Grid grid{pattern.rows().order.size(0), pattern.columns().order.size(0)};
  const int64_t count = pattern.column_of_block().size(0);
  if (should_gather(a, b, count, grid, block_shape)) return gathered_blocks(a, b, pattern, grid, block_shape);
  if (has_too_many_blocks(a, count, grid, block_shape)) return masked_blocks(a, b, pattern, grid, block_shape);
  static const auto kernels = kernels_named(kOp, "block_sparse_sampled");
  const c10::IValue arguments[] = {
      a, b, pattern.row_of_block(), pattern.column_of_block(), block_shape[0], block_shape[1]};
  return launch_sdd(kernels.of(a), arguments)[0];
}

}  // namespace torch_slang::block_sparse
