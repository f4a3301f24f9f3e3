// The block-sparse products where gradients come in batches: torch.autograd.grad(is_grads_batched=True), which maps by a key of its
// own. (Its headers and those of torch.vmap do not go into one file.)
#include <ATen/LegacyVmapTransforms.h>
#include <torch/library.h>

#include "block_sparse.h"

namespace torch_slang::block_sparse {
namespace {

// `multiply(first, second)`: of what both operands have in front, in one dimension.
template <class Multiply>
Tensor by_levels(const char* op, const Tensor& first, const Tensor& second, at::TensorList pattern,
                 const Multiply& multiply) {
  for (const Tensor& tensor : pattern) check_pattern_is_one(op, at::isBatchedTensor(tensor));
  const auto views = at::MultiBatchVmapTransform::logicalToPhysical({first, second});
  const int64_t levels = views[0].numBatchDims();
  const auto in_one = [&](const Tensor& tensor) { return levels == 1 ? tensor : tensor.flatten(0, levels - 1); };
  const Tensor& given = views[0].tensor();
  const c10::SymDimVector sizes(given.sym_sizes().begin(), given.sym_sizes().begin() + levels);
  const Tensor product = multiply(in_one(given), in_one(views[1].tensor()));
  return views[0].getPhysicalToLogicalMap().apply(levels == 1 ? product : product.unflatten_symint(0, sizes));
}

Tensor mm_of_levels(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  return by_levels("slang::block_sparse_mm", dense, values, pattern, [&](const Tensor& left, const Tensor& right) {
    if (!at::isBatchedTensor(values) && values.dim() == 3) return mm().call(left, values, pattern, shape, transpose);
    return mm_of_batches(left, right, pattern, shape, transpose);
  });
}

Tensor sdd_of_levels(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                     at::IntArrayRef block_shape) {
  return by_levels("slang::block_sparse_sdd", a, b, pattern, [&](const Tensor& left, const Tensor& right) {
    return sdd_of_batches(left, right, pattern, shape, block_shape);
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(slang, Batched, library) {
  library.impl("block_sparse_mm", mm_of_levels);
  library.impl("block_sparse_sdd", sdd_of_levels);
}

}  // namespace torch_slang::block_sparse
