// Shared by products of two tensors: their further arguments, and the forward derivative.
#pragma once

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

namespace torch_slang {

// Where the product is block-sparse: the pattern's tensors and shape. Nothing where it is dense.
struct ProductLayout {
  std::vector<at::Tensor> tensors;
  c10::SymDimVector sizes;
};

// A tensor without its tangent. It keeps its history.
inline at::Tensor primal(const at::Tensor& tensor) {
  return torch::autograd::isFwGradDefined(tensor) ? tensor._fw_primal(/*level=*/0) : tensor;
}

// Of `multiply(a, b)`, at least one of which has a tangent.
template <class Multiply>
at::Tensor tangent_of_product(const Multiply& multiply, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result;
  if (torch::autograd::isFwGradDefined(a)) result = multiply(a._fw_grad(/*level=*/0), primal(b));
  if (!torch::autograd::isFwGradDefined(b)) return result;
  const at::Tensor other = multiply(primal(a), b._fw_grad(/*level=*/0));
  return result.defined() ? result.add(other) : other;
}

}  // namespace torch_slang
