// The derivatives of block_sparse_mm by its operands, for those who record it: alone, or with an epilogue behind it.
#pragma once

#include <torch/csrc/dynamo/compiled_autograd.h>

#include "block_sparse.h"
#include "product_rule.h"

namespace torch_slang::block_sparse {

struct Mm {
  Mm(const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose)
      : layout{pattern.vec(), {shape.begin(), shape.end()}},
        transpose(transpose),
        block_shape{values.size(-2), values.size(-1)},
        is_batch(values.dim() == 4) {}

  ProductLayout layout;
  bool transpose;
  at::DimVector block_shape;
  bool is_batch;  // of values

  static const char* name() { return "Slang_block_sparse_mm_Backward"; }
  Tensor forward(const Tensor& dense, const Tensor& values) const {
    return mm().call(dense, values, layout.tensors, layout.sizes, transpose);
  }
  Tensor of_first(const Tensor& grad, const Tensor& values) const {
    return mm().call(grad, values, layout.tensors, layout.sizes, !transpose);
  }
  // Rows of all leading dimensions count together, but those of a batch of values.
  Tensor of_second(const Tensor& grad, const Tensor& dense) const {
    const auto flat = [&](const Tensor& tensor) {
      c10::SymDimVector sizes;
      if (is_batch) sizes.push_back(tensor.sym_size(0));
      sizes.push_back(c10::multiply_integers(tensor.sym_sizes().slice(sizes.size(), tensor.dim() - 1 - sizes.size())));
      sizes.push_back(tensor.sym_size(-1));
      return tensor.reshape_symint(sizes);  // every size is said: of no elements -1 would say nothing
    };
    const Tensor out = flat(transpose ? grad : dense), in = flat(transpose ? dense : grad);
    return sdd().call(out.mT(), in, layout.tensors, layout.sizes, block_shape);
  }
  void collect(torch::dynamo::autograd::CompiledNodeArgs& args) const {
    args.collect(transpose);
    args.collect(is_batch);
    for (const int64_t size : block_shape) args.collect(size);
  }
};

}  // namespace torch_slang::block_sparse
