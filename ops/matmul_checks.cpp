#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "matmul.h"
#include "operators/arguments.h"
#include "operators/view_packing.h"

namespace torch_slang::product {

namespace {

// Kernels count rows and columns with int.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

bool is_floating(c10::ScalarType type) {
  return type == c10::kHalf || type == c10::kBFloat16 || type == c10::kFloat || type == c10::kDouble;
}

bool equal(const c10::SymInt& x, const c10::SymInt& y) { return x.sym_eq(y).expect_true(__FILE__, __LINE__); }

bool is_one(const c10::SymInt& size) { return size.sym_eq(1).guard_or_false(__FILE__, __LINE__); }

// `first`: the dimensions before it may be of any size.
void check_counts(const char* op, const char* name, const Tensor& tensor, int64_t first) {
  for (int64_t i = first; i < tensor.dim(); ++i) {
    const int64_t size = tensor.sym_size(i).maybe_as_int().value_or(0);
    TORCH_CHECK(size <= kMaxSize, op, ": ", name, " is too large: the limit is ", kMaxSize, ", but dimension ", i,
                " has ", size, " elements");
  }
}

// What b must be for an a of two or three dimensions.
void check_factors(const Names& names, const Tensor& a, const Tensor& b) {
  const bool is_batch = a.dim() == 3;
  const char* shape = is_batch ? "[B, K, N]" : "[K, N]";
  TORCH_CHECK(b.dim() == a.dim(), names.op, ": expected b to have shape ", shape, " (", a.dim(),
              " dimensions), but got ", b.sym_sizes());
  const auto check_size = [&](int64_t i, const char* name, const c10::SymInt& size) {
    TORCH_CHECK(equal(b.sym_size(i), size), names.op, ": expected b to have shape ", shape, ", but got ", b.sym_sizes(),
                ": dimension ", i, " must be ", name, " = ", size, " (from a)");
  };
  if (is_batch) check_size(0, "B", a.sym_size(0));
  check_size(b.dim() - 2, "K", a.sym_size(-1));
  check_counts(names.op, names.a, a, 0);
  check_counts(names.op, names.b, b, 0);
}

}  // namespace

void check_dense(const char* op, const char* name, const Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), op, ": expected ", name, " to be a tensor, but got None");
  const char* rule = " to be a dense tensor on the CPU or a CUDA device, but got ";
  TORCH_CHECK(!tensor.is_nested(), op, ": expected ", name, rule, "a nested tensor");
  TORCH_CHECK(tensor.layout() == c10::kStrided, op, ": expected ", name, rule, "the layout ", tensor.layout());
  TORCH_CHECK(tensor.is_cpu() || tensor.is_cuda() || tensor.is_meta(), op, ": expected ", name, rule, "one on ",
              tensor.device());
}

void check_like(const char* op, const char* name, const Tensor& tensor, const char* first_name, const Tensor& first) {
  check_dense(op, name, tensor);
  TORCH_CHECK(tensor.device() == first.device(), op, ": expected all tensors to be on the same device, but ",
              first_name, " is on ", first.device(), " and ", name, " is on ", tensor.device());
  TORCH_CHECK(tensor.scalar_type() == first.scalar_type(), op, ": expected ", name, " to have dtype ",
              dtype_text(first.scalar_type()), " like ", first_name, ", but got ", dtype_text(tensor.scalar_type()));
}

void check_operands(const Names& names, const Tensor& a, const Tensor& b) {
  check_dense(names.op, names.a, a);
  TORCH_CHECK(is_floating(a.scalar_type()), names.op, ": expected ", names.a,
              " to have dtype float16, bfloat16, float32 or float64, but got ", dtype_text(a.scalar_type()));
  check_like(names.op, names.b, b, names.a, a);
}

void check_mm(const Tensor& a, const Tensor& b) {
  const Names names{"slang::mm"};
  check_operands(names, a, b);
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, names.op, ": expected a to have shape [M, K] or [B, M, K], but got ",
              a.sym_sizes());
  check_factors(names, a, b);
}

void check_batches(const char* op, const Tensor& a, const Tensor& b) {
  const Names names{op};
  check_operands(names, a, b);
  TORCH_CHECK(a.dim() == 3, names.op, ": expected a to have shape [B, M, K] (3 dimensions), but got ", a.sym_sizes());
  check_factors(names, a, b);
}

void check_matmul(const Names& names, const Tensor& a, const Tensor& b) {
  check_operands(names, a, b);
  for (const auto& [name, tensor] : {std::pair(names.a, a), std::pair(names.b, b)}) {
    TORCH_CHECK(tensor.dim() > 0, names.op, ": expected ", name,
                " to have at least 1 dimension, but got a 0-dimensional tensor");
  }
  const c10::SymInt summed = a.sym_size(-1);
  const int64_t rows = std::max<int64_t>(b.dim() - 2, 0);  // the dimension of b that holds them
  TORCH_CHECK(equal(b.sym_size(rows), summed), names.op, ": expected ", names.b, " to have shape [",
              b.dim() > 2 ? "..., " : "", summed, b.dim() > 1 ? ", N" : "", "], but got ", b.sym_sizes(),
              ": dimension ", rows, " must be ", summed);
  for (int64_t i = 3; i <= a.dim() && i <= b.dim(); ++i) {
    const c10::SymInt x = a.sym_size(-i), y = b.sym_size(-i);
    TORCH_CHECK(is_one(x) || is_one(y) || equal(x, y), names.op, ": expected the leading dimensions of ", names.b,
                " to broadcast with those of ", names.a, ", but got ", b.sym_sizes(), " and ", a.sym_sizes(),
                ": dimension ", b.dim() - i, " of ", names.b, " must be ", x, " or 1");
  }
  check_counts(names.op, names.a, a, std::max<int64_t>(a.dim() - 2, 0));
  check_counts(names.op, names.b, b, rows);
}

void check_broadcasts(const char* op, const char* name, const Tensor& tensor, c10::SymIntArrayRef result) {
  const auto sizes = tensor.sym_sizes();
  TORCH_CHECK(sizes.size() <= result.size(), op, ": expected ", name, " to broadcast to the result's shape ", result,
              ", but got ", sizes);
  const size_t leading = result.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    TORCH_CHECK(is_one(sizes[i]) || equal(sizes[i], result[leading + i]), op, ": expected ", name,
                " to broadcast to the result's shape ", result, ", but got ", sizes, ": dimension ", i, " must be ",
                result[leading + i], " or 1");
  }
}

void check_summand(const Names& names, const Tensor& c, const Tensor& a, c10::SymIntArrayRef result) {
  check_like(names.op, "c", c, names.a, a);
  check_broadcasts(names.op, "c", c, result);
}

}  // namespace torch_slang::product
