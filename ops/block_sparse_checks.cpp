#include <algorithm>
#include <array>

#include "block_sparse.h"
#include "matmul.h"
#include "operators/arguments.h"

namespace torch_slang::block_sparse {
namespace {

constexpr std::array<const char*, Pattern::kTensors> kNames = {
    "row_offsets", "columns", "rows", "row_order", "column_offsets", "column_rows", "column_blocks", "column_order"};

bool equal(const c10::SymInt& x, const c10::SymInt& y) { return x.sym_eq(y).expect_true(__FILE__, __LINE__); }

// How many blocks of `block` there are in `size`.
c10::SymInt blocks_in(const c10::SymInt& size, int64_t block) { return (size + (block - 1)) / block; }

void check_shapes(const char* op, Sizes shape, int64_t rows, int64_t columns) {
  TORCH_CHECK(shape.size() == 2, op, ": expected shape to be [out, in], but got ", shape);
  constexpr std::array<int64_t, 4> kSizes = {16, 32, 64, 128};
  for (const int64_t size : {rows, columns}) {
    TORCH_CHECK(std::find(kSizes.begin(), kSizes.end(), size) != kSizes.end(), op,
                ": expected blocks of 16, 32, 64 or 128 rows and columns, but got [", rows, ", ", columns, "]");
  }
}

void check_pattern(const char* op, const Tensor& dense, at::TensorList tensors, Sizes shape, int64_t r, int64_t c) {
  TORCH_CHECK(tensors.size() == Pattern::kTensors, op, ": expected pattern to be the ", Pattern::kTensors,
              " tensors of BlockPattern.tensors(), but got ", tensors.size());
  const c10::SymInt lines[2] = {blocks_in(shape[0], r), blocks_in(shape[1], c)};
  const c10::SymInt count = tensors[1].sym_size(0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    TORCH_CHECK(tensor.scalar_type() == at::kInt && tensor.dim() == 1, op, ": expected ", kNames[i],
                " of the pattern to be a tensor of int32 with one dimension, but got ",
                dtype_text(tensor.scalar_type()), " ", tensor.sym_sizes());
    TORCH_CHECK(tensor.device() == dense.device(), op, ": expected the pattern to be on ", dense.device(),
                " like the first operand, but it is on ", tensor.device());
    const bool is_offsets = i == 0 || i == 4, is_order = i == 3 || i == 7;
    const c10::SymInt& of = lines[i < 4 ? 0 : 1];
    const c10::SymInt expected = is_offsets ? of + 1 : is_order ? of : count;
    TORCH_CHECK(equal(tensor.sym_size(0), expected), op, ": expected ", kNames[i], " of the pattern to have ", expected,
                " elements, for a matrix [", shape[0], ", ", shape[1], "] of ", count, " blocks [", r, ", ", c,
                "], but it has ", tensor.sym_size(0));
  }
}

}  // namespace

void check_mm(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose,
              const char* op) {
  product::check_operands({op, "dense", "values"}, dense, values);
  TORCH_CHECK(values.dim() == 3 || values.dim() == 4, op,
              ": expected values to have shape [n, r, c] or [B, n, r, c], but got ", values.sym_sizes());
  const int64_t r = values.size(-2), c = values.size(-1);
  check_shapes(op, shape, r, c);
  check_pattern(op, dense, pattern, shape, r, c);
  const c10::SymInt count = Pattern(pattern).count();
  TORCH_CHECK(equal(values.sym_size(-3), count), op, ": expected values to have a block for each of the pattern's ",
              count, ", but got ", values.sym_sizes());
  TORCH_CHECK(dense.dim() >= 1, op, ": expected dense to have at least 1 dimension, but got a 0-dimensional tensor");
  const c10::SymInt& depth = shape[transpose ? 1 : 0];
  TORCH_CHECK(equal(dense.sym_size(-1), depth), op, ": expected dense to have shape [..., ", depth, "], for a matrix [",
              shape[0], ", ", shape[1], "]", transpose ? " that is transposed" : "", ", but got ", dense.sym_sizes());
  if (values.dim() == 3) return;
  TORCH_CHECK(dense.dim() >= 2 && equal(dense.sym_size(0), values.sym_size(0)), op, ": expected dense to have shape [",
              values.sym_size(0), ", ..., ", depth, "] like values, ", values.sym_sizes(), ", but got ",
              dense.sym_sizes());
}

void check_sdd(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape) {
  constexpr const char* kOp = "slang::block_sparse_sdd";
  product::check_operands({kOp}, a, b);
  TORCH_CHECK(block_shape.size() == 2, kOp, ": expected block_shape to be [r, c], but got ", block_shape);
  check_shapes(kOp, shape, block_shape[0], block_shape[1]);
  check_pattern(kOp, a, pattern, shape, block_shape[0], block_shape[1]);
  TORCH_CHECK((a.dim() == 2 || a.dim() == 3) && equal(a.sym_size(-2), shape[0]), kOp, ": expected a to have shape [",
              shape[0], ", K] or [B, ", shape[0], ", K], but got ", a.sym_sizes());
  TORCH_CHECK(b.dim() == a.dim() && equal(b.sym_size(-2), a.sym_size(-1)) && equal(b.sym_size(-1), shape[1]) &&
                  (b.dim() == 2 || equal(b.sym_size(0), a.sym_size(0))),
              kOp, ": expected b to have shape ", a.dim() == 3 ? "[B, K, in]" : "[K, in]", " with K = ", a.sym_size(-1),
              " and in = ", shape[1], ", but got ", b.sym_sizes(), " beside a of shape ", a.sym_sizes());
}

}  // namespace torch_slang::block_sparse
