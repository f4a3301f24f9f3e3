// Products with an epilogue: y = f(sum, arguments...) for each element of a matrix product, dense or block-sparse, where f is
// a function of a Slang module. torch_slang.matmul_with_epilogue and torch_slang.block_sparse_mm_with_epilogue write that
// module's kernels (torch_slang/products/epilogue_text.py), which are found here by the epilogue's name. Any thread may call any of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "matmul.h"
#include "operators/dispatched_call.h"

namespace torch_slang::product {

using at::Tensor;
using TensorPair = std::tuple<Tensor, Tensor>;

using EpilogueOp = c10::TypedOperatorHandle<Tensor(c10::string_view, const Tensor&, const Tensor&, at::TensorList)>;
using EpilogueAndSumOp =
    c10::TypedOperatorHandle<TensorPair(c10::string_view, const Tensor&, const Tensor&, at::TensorList)>;

const EpilogueOp& mm_with_epilogue();
const EpilogueAndSumOp& mm_with_epilogue_and_sum();

// One of the products, as its users know it, and what its generated names have behind the function's.
struct ProductNames {
  const char *op, *maker;
  const char *first, *second;  // operands
  const char *suffix, *ending;  // "gelu" + suffix + "_in_float", "gelu" + suffix + ending
};
inline constexpr ProductNames kMatmul{
    "slang::matmul_with_epilogue", "torch_slang.matmul_with_epilogue", "a", "b", "", "_product"};
inline constexpr ProductNames kBlockSparse{"slang::block_sparse_mm_with_epilogue",
                                           "torch_slang.block_sparse_mm_with_epilogue",
                                           "dense",
                                           "values",
                                           "_block_sparse",
                                           "_mm"};

// The operators that stand behind one name. They stay; which Program they run changes with a reload.
struct Epilogue {
  const ProductNames& names;
  std::string where;  // for messages: "slang::matmul_with_epilogue(gelu)"
  ProductKernels product;  // (operands, arguments) -> y
  ProductKernels product_and_sum;  // (operands, arguments) -> (y, sum)
  const RegisteredFamily* in_float;  // the function itself, in float and in double; null: there is none
  const RegisteredFamily* in_double;

  // The function for operands of this type. Its first leaf is the sum, the others are the arguments. Throws where it would
  // narrow them.
  const RegisteredFamily& function(c10::ScalarType type) const;
};

// While it lives, calls on this thread run the operators that the epilogue had at one moment: what a recorded product computes
// and the derivative that its node keeps are of one text, whatever another thread reloads.
class PinnedEpilogue {
 public:
  explicit PinnedEpilogue(const Epilogue& epilogue);

 private:
  static constexpr size_t kFamilies = 8;
  std::vector<std::shared_ptr<const Operator>> operators_;
  std::array<std::optional<PinnedOperator>, kFamilies> pins_;  // ended in the opposite order
};

// "gelu" is that of the namespace slang, "mine::gelu" another's. Throws if there is none.
const Epilogue& epilogue_named(const ProductNames& product, c10::string_view name);

// Throws unless the arguments fit the function and broadcast to a result of these sizes. `first`: the first operand.
void check_epilogue_arguments(const Epilogue& epilogue, const Tensor& first, at::TensorList arguments,
                              c10::SymIntArrayRef result);

// Those of slang::mm_with_epilogue, whose arguments have the product's three dimensions.
void check_mm_with_epilogue(const Epilogue& epilogue, const Tensor& a, const Tensor& b, at::TensorList arguments);

// Autocast: arguments with gradients are cast as operands are. Constants keep their type.
std::vector<Tensor> cast_arguments(const Epilogue& epilogue, at::TensorList arguments, c10::DeviceType device);

// Autograd kernels of the dense product.
Tensor mm_with_epilogue_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a, const Tensor& b,
                                 at::TensorList arguments);
TensorPair mm_with_epilogue_and_sum_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a,
                                             const Tensor& b, at::TensorList arguments);

}  // namespace torch_slang::product
