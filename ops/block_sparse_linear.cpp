// The operator slang::block_sparse_linear(x, weight, pattern, shape, bias): x S^T + bias, as a layer without an epilogue has it.
//
// The bias is part of the product's kernel where no derivative is wanted. Else it is added behind: epilogues have derivatives of
// first order, a sum has all, and recorded neither is faster than the other.
#include <ATen/ops/add.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "block_sparse_epilogue.h"

namespace torch_slang::block_sparse {
namespace {

Tensor linear(const Tensor& x, const Tensor& weight, at::TensorList pattern, Sizes shape,
              const std::optional<Tensor>& bias) {
  if (!bias) return mm().call(x, weight, pattern, shape, /*transpose=*/true);
  const auto has_derivatives = [](const Tensor& tensor) {
    return (c10::GradMode::is_enabled() && tensor.requires_grad()) || torch::autograd::isFwGradDefined(tensor);
  };
  if (!has_derivatives(x) && !has_derivatives(weight) && !has_derivatives(*bias)) {
    return mm_with_epilogue().call("linear_bias", x, weight, pattern, shape, /*transpose=*/true, {*bias});
  }
  const Tensor product = mm().call(x, weight, pattern, shape, /*transpose=*/true);
  return product.add(bias->to(product.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(slang, library) {
  library.def(
      "block_sparse_linear(Tensor x, Tensor weight, Tensor[] pattern, SymInt[2] shape, Tensor? bias=None) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  // Without the second key vmap would not look inside, but run it in a loop.
  for (const auto key : {c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::FuncTorchBatched}) {
    library.impl("block_sparse_linear", torch::dispatch(key, linear));
  }
}

}  // namespace torch_slang::block_sparse
