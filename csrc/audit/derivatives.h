// f, its derivatives and their products with directions, at arguments of an audit. Tensors are by differentiable inputs of f, or by
// its outputs that have gradients. All runs below the dispatcher, on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "audit/problem.h"
#include "operators/operator.h"

namespace torch_slang::audit {

using Tensors = std::vector<at::Tensor>;

class Derivatives {
 public:
  Derivatives(const Operator& f, Problem problem) : f_(f), problem_(std::move(problem)) {}

  const Operator& f() const { return f_; }
  int64_t rows() const { return problem_.rows; }
  bool has_tangents() const { return f_.jvp != nullptr; }

  Tensors inputs() const;
  // The same with other integers in tensors.
  Derivatives with_integers(const std::function<at::Tensor(const at::Tensor&)>& other) const;

  // What a kernel leaves unwritten is NaN.
  Tensors values(const Tensors& x) const;
  Tensors tangents(const Tensors& x, const Tensors& t) const;  // J t
  Tensors gradients(const Tensors& x, const Tensors& g) const;  // J^T g
  Tensors second(const Tensors& x, const Tensors& t, const Tensors& g) const;  // the gradient by x of (g, J t)

  // By row: sums of products, and of their absolute values. What is undefined counts as 0.
  at::Tensor dot(const Tensors& a, const Tensors& b) const;
  at::Tensor size_of_dot(const Tensors& a, const Tensors& b) const;

 private:
  std::vector<c10::IValue> with(const Tensors& x) const;
  at::Tensor by_row(const at::Tensor& products) const;

  const Operator& f_;
  Problem problem_;
};

}  // namespace torch_slang::audit
