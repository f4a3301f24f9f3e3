// The shapes of products: which operands are views of one batch of matrices, and what the result's sizes are.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <initializer_list>

namespace torch_slang::product {

using at::Tensor;

c10::SymIntArrayRef leading_sizes(const Tensor& tensor);  // all but the last two
c10::SymDimVector sizes_of(c10::SymIntArrayRef leading, std::initializer_list<c10::SymInt> matrix);
c10::SymInt count(c10::SymIntArrayRef leading);

// False too where sizes are symbolic and nobody knows.
bool same_sizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b);

// Whether [..., M, K] x [K, N] is better done as one product of [... * M, K]. It is if those rows are a view; and if
// `matrix` gets a gradient, even if they must be copied: the gradient then is one product, not one for each of the
// batch and their sum. torch.matmul does the same.
bool folds(const Tensor& batch, const Tensor& matrix);

// One batch dimension in place of all, of the sizes `leading`. Copies only where a view is impossible.
Tensor as_batch(const Tensor& tensor, c10::SymIntArrayRef leading);

// Of two matrices, or of two batches of as many.
c10::SymDimVector product_sizes(const Tensor& a, const Tensor& b);

// As torch.matmul: an operand of one dimension is a row or a column, and that dimension is not in the result.
c10::SymDimVector result_sizes(const Tensor& a, const Tensor& b);

}  // namespace torch_slang::product
