// The block-sparse products under torch.vmap.
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "block_sparse_epilogue.h"

namespace torch_slang::block_sparse {

void check_pattern_is_one(const char* op, bool is_mapped) {
  TORCH_CHECK(!is_mapped, op,
              ": expected one pattern for all that vmap maps over, but its tensors are mapped over too");
}

Tensor mm_of_batches(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  if (values.dim() == 5) {
    const c10::SymDimVector batch{dense.sym_size(0), dense.sym_size(1)};
    return mm().call(dense.flatten(0, 1), values.flatten(0, 1), pattern, shape, transpose).unflatten_symint(0, batch);
  }
  if (dense.dim() > 2) return mm().call(dense, values, pattern, shape, transpose);
  return mm().call(dense.unsqueeze(1), values, pattern, shape, transpose).squeeze(1);  // vectors
}

Tensor sdd_of_batches(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                      at::IntArrayRef block_shape) {
  if (a.dim() == 3) return sdd().call(a, b, pattern, shape, block_shape);
  const c10::SymDimVector batch{a.sym_size(0), a.sym_size(1)};
  return sdd().call(a.flatten(0, 1), b.flatten(0, 1), pattern, shape, block_shape).unflatten_symint(0, batch);
}

namespace {

namespace functorch = at::functorch;

class Level {
 public:
  explicit Level(const char* op) : op_(op) {
    const auto layer = functorch::maybeCurrentDynamicLayer();
    TORCH_INTERNAL_ASSERT(layer.has_value());
    number_ = layer->layerId();
  }

  // What is mapped over, in front; and whether anything is.
  std::pair<Tensor, bool> in_front(const Tensor& tensor) const {
    const auto [value, dimension] = functorch::unwrapTensorAtLevel(tensor, number_);
    return {dimension ? value.movedim(*dimension, 0) : value, dimension.has_value()};
  }
  std::vector<Tensor> pattern(at::TensorList tensors) const {
    std::vector<Tensor> result;
    for (const Tensor& tensor : tensors) {
      const auto [value, is_mapped] = in_front(tensor);
      check_pattern_is_one(op_, is_mapped);
      result.push_back(value);
    }
    return result;
  }
  Tensor result(const Tensor& tensor) const { return functorch::makeBatched(tensor, 0, number_); }

 private:
  const char* op_;
  int64_t number_;
};

// With a size in front that is mapped over, by both.
std::pair<Tensor, Tensor> both_mapped(const std::pair<Tensor, bool>& first, const std::pair<Tensor, bool>& second) {
  const c10::SymInt size = (first.second ? first : second).first.sym_size(0);
  const auto mapped = [&](const std::pair<Tensor, bool>& operand) {
    if (operand.second) return operand.first;
    c10::SymDimVector sizes{size};
    sizes.append(operand.first.sym_sizes().begin(), operand.first.sym_sizes().end());
    return operand.first.unsqueeze(0).expand_symint(sizes);
  };
  return {mapped(first), mapped(second)};
}

Tensor mm_vmap(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  const Level level("slang::block_sparse_mm");
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto indices = level.pattern(pattern);
  const auto rows = level.in_front(dense), blocks = level.in_front(values);
  // Values that are one for all serve any leading dimensions.
  if (!blocks.second && blocks.first.dim() == 3) {
    return level.result(mm().call(rows.first, blocks.first, indices, shape, transpose));
  }
  const auto [left, right] = both_mapped(rows, blocks);
  return level.result(mm_of_batches(left, right, indices, shape, transpose));
}

Tensor sdd_vmap(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape) {
  const Level level("slang::block_sparse_sdd");
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto indices = level.pattern(pattern);
  const auto [left, right] = both_mapped(level.in_front(a), level.in_front(b));
  return level.result(sdd_of_batches(left, right, indices, shape, block_shape));
}

// --- with an epilogue

using Operand = std::pair<Tensor, bool>;  // what is mapped over in front, if anything is

// What one more product makes of all the mapped ones: its operands, and arguments that broadcast beside them.
struct Mapped {
  Tensor dense, values;
  std::vector<Tensor> arguments;
  c10::SymDimVector sizes;  // of the result, with what is mapped over in front
};

// An argument with what is mapped over in front, and 1 where the result has dimensions that it has not.
Tensor beside(const Operand& argument, int64_t result_dims) {
  const auto& [tensor, is_mapped] = argument;
  if (!is_mapped) return tensor;
  c10::SymDimVector sizes{tensor.sym_size(0)};
  sizes.resize(1 + std::max<int64_t>(0, result_dims - (tensor.dim() - 1)), 1);
  sizes.append(tensor.sym_sizes().begin() + 1, tensor.sym_sizes().end());
  return tensor.reshape_symint(sizes);
}

Mapped mapped(const Operand& dense, const Operand& values, const std::vector<Operand>& arguments, Sizes shape,
              bool transpose) {
  const int64_t dims = dense.first.dim() - dense.second;
  c10::SymInt size;
  for (const Operand& operand : arguments) size = operand.second ? operand.first.sym_size(0) : size;
  for (const Operand* operand : {&values, &dense}) size = operand->second ? operand->first.sym_size(0) : size;
  const auto in_front = [&](const Operand& operand) {
    if (operand.second) return operand.first;
    c10::SymDimVector sizes{size};
    sizes.append(operand.first.sym_sizes().begin(), operand.first.sym_sizes().end());
    return operand.first.unsqueeze(0).expand_symint(sizes);
  };
  Mapped result{in_front(dense), values.first, {}, {}};
  result.sizes = mm_sizes(result.dense, shape, transpose);
  for (const Operand& argument : arguments) result.arguments.push_back(beside(argument, dims));
  if (!values.second && values.first.dim() == 3) return result;  // one for all: any leading dimensions will do
  result.values = in_front(values);
  if (result.values.dim() == 5) {  // two dimensions of batches in one
    for (Tensor& argument : result.arguments) argument = argument.expand_symint(result.sizes).flatten(0, 1);
    result.dense = result.dense.flatten(0, 1);
    result.values = result.values.flatten(0, 1);
  } else if (dims == 1) {  // vectors
    for (Tensor& argument : result.arguments) argument = argument.expand_symint(result.sizes).unsqueeze(1);
    result.dense = result.dense.unsqueeze(1);
  }
  return result;
}

template <auto Op>
auto epilogue_vmap(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                   Sizes shape, bool transpose, at::TensorList arguments) {
  const Level level(product::kBlockSparse.op);
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto indices = level.pattern(pattern);
  std::vector<Operand> operands;
  for (const Tensor& argument : arguments) operands.push_back(level.in_front(argument));
  const Mapped one = mapped(level.in_front(dense), level.in_front(values), operands, shape, transpose);
  const auto result = Op().call(name, one.dense, one.values, indices, shape, transpose, one.arguments);
  const auto with_sizes = [&](const Tensor& tensor) { return level.result(tensor.reshape_symint(one.sizes)); };
  if constexpr (std::is_same_v<decltype(result), const Tensor>) {
    return with_sizes(result);
  } else {
    return TensorPair{with_sizes(std::get<0>(result)), with_sizes(std::get<1>(result))};
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(slang, FuncTorchBatched, library) {
  library.impl("block_sparse_mm", mm_vmap);
  library.impl("block_sparse_sdd", sdd_vmap);
  library.impl("block_sparse_mm_with_epilogue", &epilogue_vmap<mm_with_epilogue>);
  library.impl("block_sparse_mm_with_epilogue_and_sum", &epilogue_vmap<mm_with_epilogue_and_sum>);
}

}  // namespace torch_slang::block_sparse
