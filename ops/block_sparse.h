// What the files of the block-sparse products share. Any thread may call any of it.
//
//   block_sparse_mm(dense, values, pattern, shape, transpose)   dense S, or dense S^T
//   block_sparse_sdd(a, b, pattern, shape, block_shape)          the blocks of a b that S has
//   block_sparse_mm_with_epilogue(epilogue, dense, values, pattern, shape, transpose, arguments)   a function of each element
//
// S is a block-sparse matrix [out, in], its `shape`. `values` [n, r, c] are its n stored blocks, row by row; the other blocks are
// zero. Where the shape is no multiple of the blocks, the last ones reach beyond it. The derivatives of each product are made of both.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "dispatch/registry.h"
#include "matmul.h"
#include "operators/operator.h"

namespace torch_slang::block_sparse {

using Tensor = at::Tensor;
using Sizes = c10::SymIntArrayRef;

using MmOp = c10::TypedOperatorHandle<Tensor(const Tensor&, const Tensor&, at::TensorList, Sizes, bool)>;
using SddOp = c10::TypedOperatorHandle<Tensor(const Tensor&, const Tensor&, at::TensorList, Sizes, at::IntArrayRef)>;
const MmOp& mm();
const SddOp& sdd();

// The stored blocks of S by row or by column, as CSR and CSC have them; a line is one row or one column of blocks. Tensors of int32:
//   offsets  blocks of line l are number offsets[l] up to offsets[l + 1] of the next two
//   depths   where each block lies in its line, ascending (CSR's column indices)
//   places   which of `values` it is; empty where number i is values[i]
//   order    lines by falling number of blocks
struct Lines {
  Tensor offsets, depths, places, order;
};
// What BlockPattern.tensors() gives: row_offsets, columns, rows, row_order, column_offsets, column_rows, column_blocks,
// column_order.
struct Pattern {
  explicit Pattern(at::TensorList tensors) : tensors_(tensors) {}
  Lines rows() const { return {tensors_[0], tensors_[1], tensors_[1].narrow(0, 0, 0), tensors_[3]}; }
  Lines columns() const { return {tensors_[4], tensors_[5], tensors_[6], tensors_[7]}; }
  const Tensor& row_of_block() const { return tensors_[2]; }
  const Tensor& column_of_block() const { return tensors_[1]; }
  c10::SymInt count() const { return tensors_[1].sym_size(0); }
  static constexpr size_t kTensors = 8;

 private:
  at::TensorList tensors_;
};

// Throw where operands do not fit each other or the pattern. What the pattern's tensors hold is not looked at.
//   dense [..., out] (transpose: [..., in]), values [n, r, c], or [B, n, r, c] where dense is [B, ..., out]
void check_mm(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose,
              const char* op = "slang::block_sparse_mm");
//   a [out, K] and b [K, in], or batches [B, out, K] and [B, K, in]
void check_sdd(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape);

c10::SymDimVector mm_sizes(const Tensor& dense, Sizes shape, bool transpose);
// Where tiles are made of several lines of blocks (block_sparse_lines.slang): on Hopper, of halves, for blocks that are too small
// to be tiles of their own, and for few rows. Then the kernel, and `arguments`, those of mm_arguments, are made what it wants; else
// null. An epilogue would be applied behind it, to rounded sums: with one it is null wherever another kernel is as good.
const RegisteredFamily* lines_kernel(std::vector<c10::IValue>& arguments, bool has_epilogue = false);
// What the kernels of block_sparse_mm take, for a result of these sizes, which has elements.
std::vector<c10::IValue> mm_arguments(const Tensor& dense, const Tensor& values, const Pattern& pattern,
                                      at::IntArrayRef sizes, bool transpose);

// The blocks of a b, [B * n, r, c], of batches [B, out, K] and [B, K, in] that product::in_words has seen.
Tensor sampled_blocks(const Tensor& a, const Tensor& b, const Pattern& pattern, at::IntArrayRef block_shape);
// The kernels of a product that load_builtin has loaded.
product::ProductKernels kernels_named(const char* op, const char* name);

// Throw where there is more than kernels count: on devices alone, so that symbolic sizes stay free.
void check_countable_mm(const char* op, const Tensor& dense, const Tensor& values, at::IntArrayRef shape);
void check_countable_sdd(const char* op, const Tensor& a, at::IntArrayRef shape, int64_t count);

// Run a kernel of block_sparse_mm, whose arguments are those of mm_arguments and perhaps an epilogue's, and one of
// block_sparse_sdd; in parts, where the product has more tiles than a launch.
constexpr size_t kMmArguments = 8;
Results launch_mm(const char* op, const RegisteredFamily& kernel, c10::ArrayRef<c10::IValue> arguments);
Results launch_sdd(const RegisteredFamily& kernel, c10::ArrayRef<c10::IValue> arguments);

// Products of batches, whose first dimension is mapped over. `values`: [S, n, r, c], or [S, B, n, r, c] beside dense [S, B, ...].
Tensor mm_of_batches(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose);
Tensor sdd_of_batches(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                      at::IntArrayRef block_shape);
void check_pattern_is_one(const char* op, bool is_mapped);

Tensor mm_autograd(c10::DispatchKeySet keys, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                   Sizes shape, bool transpose);
Tensor sdd_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                    at::IntArrayRef block_shape);

}  // namespace torch_slang::block_sparse
