// Large block-sparse products: sizes that kernels cannot count are refused, and products with more tiles than a launch are halved.
#include <ATen/ops/empty.h>

#include <limits>
#include <utility>
#include <vector>

#include "block_sparse.h"
#include "kernels/most_tiles.h"

namespace torch_slang::block_sparse {
namespace {

constexpr int64_t kMostIndices = std::numeric_limits<int32_t>::max();
constexpr int64_t kLeastTile = 64;  // rows and columns of the smallest tile, where a block has as many

int64_t tiles_in(int64_t size) { return (size + kLeastTile - 1) / kLeastTile; }

void check_countable(const char* op, const char* what, int64_t count) {
  TORCH_CHECK(count <= kMostIndices, op, ": expected at most ", kMostIndices, " ", what,
              ", since kernels count them with int32, but got ", count);
}

int64_t rows_of(const Tensor& dense, int64_t first) {
  return c10::multiply_integers(dense.sizes().slice(first, dense.dim() - 1 - first));
}

// What `part(start, length)` makes of both halves of `size`, one behind the other along `dimension` of its results.
template <class Part>
Results in_halves(int64_t size, int64_t dimension, int64_t length_of_one, const Part& part) {
  const int64_t half = size / 2;
  Results results;
  for (const auto& [start, length] : {std::pair{int64_t{0}, half}, std::pair{half, size - half}}) {
    const Results made = part(start, length);
    for (size_t i = 0; i < made.size(); ++i) {
      at::DimVector sizes(made[i].sizes());
      sizes[dimension] = size * length_of_one;
      if (start == 0) results.push_back(at::empty(sizes, made[i].options()));
      results[i].narrow(dimension, start * length_of_one, length * length_of_one).copy_(made[i]);
    }
  }
  return results;
}

}  // namespace

void check_countable_mm(const char* op, const Tensor& dense, const Tensor& values, at::IntArrayRef shape) {
  const bool is_batch = values.dim() == 4;
  check_countable(op, "rows of the matrix", shape[0]);
  check_countable(op, "columns of the matrix", shape[1]);
  check_countable(op, "rows of dense", rows_of(dense, is_batch ? 1 : 0));
  check_countable(op, "blocks in values", values.size(-3) * (is_batch ? values.size(0) : 1));
}

void check_countable_sdd(const char* op, const Tensor& a, at::IntArrayRef shape, int64_t count) {
  check_countable(op, "rows of the matrix", shape[0]);
  check_countable(op, "columns of the matrix", shape[1]);
  check_countable(op, "columns of a", a.size(-1));
  check_countable(op, "blocks", count * (a.dim() == 3 ? a.size(0) : 1));
}

Results launch_mm(const char* op, const RegisteredFamily& kernel, c10::ArrayRef<c10::IValue> arguments) {
  const Tensor dense = arguments[0].toTensor(), blocks = arguments[1].toTensor();
  const int64_t lines = arguments[2].toTensor().size(0), apart = arguments[7].toInt(), batch = dense.size(0);
  const int64_t tiles_of_row = lines * tiles_in(blocks.size(2)), tiles = batch * tiles_in(dense.size(1)) * tiles_of_row;
  if (tiles <= most_tiles()) return kernel.current()->run(OpKind::Forward, arguments);
  const int64_t dimension = batch > 1 ? 0 : 1;
  TORCH_CHECK(dense.size(dimension) > 1, op, ": expected at most ", most_tiles(),
              " tiles beside each other in the result, one for each line of blocks (two for blocks of 128), but got ",
              tiles_of_row);
  return in_halves(dense.size(dimension), dimension, 1, [&](int64_t start, int64_t length) {
    std::vector<c10::IValue> of_half = arguments.vec();
    const auto narrow = [&](size_t i, int64_t by, int64_t d) {
      of_half[i] = of_half[i].toTensor().narrow(d, start * by, length * by);
    };
    narrow(0, 1, dimension);
    if (dimension == 0 && apart > 0) narrow(1, apart, 0);
    for (size_t i = kMmArguments; i < of_half.size(); ++i) narrow(i, 1, dimension);  // an epilogue's
    return launch_mm(op, kernel, of_half);
  });
}

Results launch_sdd(const RegisteredFamily& kernel, c10::ArrayRef<c10::IValue> arguments) {
  const int64_t batch = arguments[0].toTensor().size(0), count = arguments[2].toTensor().size(0);
  const int64_t tiles = batch * count * tiles_in(arguments[4].toInt()) * tiles_in(arguments[5].toInt());
  if (tiles <= most_tiles()) return kernel.current()->run(OpKind::Forward, arguments);
  // Of a batch both matrices, else the list of blocks.
  const size_t first = batch > 1 ? 0 : 2;
  return in_halves(batch > 1 ? batch : count, 0, batch > 1 ? count : 1, [&](int64_t start, int64_t length) {
    std::vector<c10::IValue> of_half = arguments.vec();
    for (size_t i = first; i < first + 2; ++i) of_half[i] = of_half[i].toTensor().narrow(0, start, length);
    return launch_sdd(kernel, of_half);
  });
}

}  // namespace torch_slang::block_sparse
