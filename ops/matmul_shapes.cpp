#include "matmul_shapes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

namespace torch_slang::product {

c10::SymIntArrayRef leading_sizes(const Tensor& tensor) { return tensor.sym_sizes().slice(0, tensor.dim() - 2); }

c10::SymDimVector sizes_of(c10::SymIntArrayRef leading, std::initializer_list<c10::SymInt> matrix) {
  c10::SymDimVector sizes(leading.begin(), leading.end());
  sizes.append(matrix.begin(), matrix.end());
  return sizes;
}

c10::SymInt count(c10::SymIntArrayRef leading) {
  c10::SymInt result = 1;
  for (const c10::SymInt& size : leading) result = result * size;
  return result;
}

bool same_sizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const c10::SymInt& x, const c10::SymInt& y) {
    return x.sym_eq(y).guard_or_false(__FILE__, __LINE__);
  });
}

namespace {

// The same matrix for the whole batch.
bool is_one_matrix(const Tensor& tensor) {
  const auto leading = leading_sizes(tensor);
  return std::all_of(leading.begin(), leading.end(),
                     [](const c10::SymInt& size) { return size.sym_eq(1).guard_or_false(__FILE__, __LINE__); });
}

}  // namespace

bool folds(const Tensor& batch, const Tensor& matrix) {
  if (!is_one_matrix(matrix) || is_one_matrix(batch)) return false;
  const c10::SymInt rows = count(batch.sym_sizes().slice(0, batch.dim() - 1));
  if (rows.maybe_as_int().value_or(0) > std::numeric_limits<int32_t>::max()) return false;
  if (c10::GradMode::is_enabled() && matrix.requires_grad()) return true;
  return at::detail::computeStride(batch.sym_sizes(), batch.sym_strides(), c10::SymDimVector{rows, batch.sym_size(-1)})
      .has_value();
}

Tensor as_batch(const Tensor& tensor, c10::SymIntArrayRef leading) {
  const Tensor expanded = same_sizes(leading_sizes(tensor), leading)
                              ? tensor
                              : tensor.expand_symint(sizes_of(leading, {tensor.sym_size(-2), tensor.sym_size(-1)}));
  if (expanded.dim() == 3) return expanded;
  return expanded.reshape_symint({count(leading), tensor.sym_size(-2), tensor.sym_size(-1)});
}

c10::SymDimVector product_sizes(const Tensor& a, const Tensor& b) {
  c10::SymDimVector sizes(a.sym_sizes().begin(), a.sym_sizes().end());
  sizes.back() = b.sym_size(-1);
  return sizes;
}

c10::SymDimVector result_sizes(const Tensor& a, const Tensor& b) {
  const auto leading = [](const Tensor& t) { return t.dim() < 3 ? c10::SymIntArrayRef() : leading_sizes(t); };
  auto sizes = at::infer_size_symdimvector(leading(a), leading(b));
  if (a.dim() > 1) sizes.push_back(a.sym_size(-2));
  if (b.dim() > 1) sizes.push_back(b.sym_size(-1));
  return sizes;
}

}  // namespace torch_slang::product
