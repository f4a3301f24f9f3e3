// The block-sparse products under torch.vmap.
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "block_sparse_epilogue.h"
#include "vmap_level.h"

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

using product::VmapLevel;
using product::VmapOperand;

std::vector<Tensor> one_pattern(const VmapLevel& level, const char* op, at::TensorList pattern) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : pattern) {
    const VmapOperand operand = level.in_front(tensor);
    check_pattern_is_one(op, operand.is_mapped);
    result.push_back(operand.tensor);
  }
  return result;
}

// With a size in front that is mapped over, by both.
std::pair<Tensor, Tensor> both_mapped(const VmapOperand& first, const VmapOperand& second) {
  const c10::SymInt size = (first.is_mapped ? first : second).tensor.sym_size(0);
  return {first.expanded(size), second.expanded(size)};
}

Tensor mm_vmap(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  const VmapLevel level;
  const auto indices = one_pattern(level, "slang::block_sparse_mm", pattern);
  const VmapOperand rows = level.in_front(dense), blocks = level.in_front(values);
  if (!rows.is_mapped && !blocks.is_mapped) return mm().call(rows.tensor, blocks.tensor, indices, shape, transpose);
  // Values that are one for all serve any leading dimensions.
  if (!blocks.is_mapped && blocks.tensor.dim() == 3) {
    return level.result(mm().call(rows.tensor, blocks.tensor, indices, shape, transpose));
  }
  const auto [left, right] = both_mapped(rows, blocks);
  return level.result(mm_of_batches(left, right, indices, shape, transpose));
}

Tensor sdd_vmap(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape) {
  const VmapLevel level;
  const auto indices = one_pattern(level, "slang::block_sparse_sdd", pattern);
  const VmapOperand first = level.in_front(a), second = level.in_front(b);
  if (!first.is_mapped && !second.is_mapped)
    return sdd().call(first.tensor, second.tensor, indices, shape, block_shape);
  const auto [left, right] = both_mapped(first, second);
  return level.result(sdd_of_batches(left, right, indices, shape, block_shape));
}

// --- with an epilogue

// The one product that computes all the mapped ones: its operands, and arguments that broadcast beside them.
struct Mapped {
  Tensor dense, values;
  std::vector<Tensor> arguments;
  c10::SymDimVector sizes;  // of the result, with the mapped dimension in front
};

// An argument with the mapped dimension in front, and 1 where the result has dimensions that it lacks.
Tensor beside(const VmapOperand& argument, int64_t result_dims) {
  const auto& [tensor, is_mapped] = argument;
  if (!is_mapped) return tensor;
  c10::SymDimVector sizes{tensor.sym_size(0)};
  sizes.resize(1 + std::max<int64_t>(0, result_dims - (tensor.dim() - 1)), 1);
  sizes.append(tensor.sym_sizes().begin() + 1, tensor.sym_sizes().end());
  return tensor.reshape_symint(sizes);
}

// `size`: of the mapped dimension.
Mapped mapped(const VmapOperand& dense, const VmapOperand& values, const std::vector<VmapOperand>& arguments,
              const c10::SymInt& size, Sizes shape, bool transpose) {
  const int64_t dims = dense.tensor.dim() - dense.is_mapped;
  Mapped result{dense.expanded(size), values.tensor, {}, {}};
  result.sizes = mm_sizes(result.dense, shape, transpose);
  for (const VmapOperand& argument : arguments) result.arguments.push_back(beside(argument, dims));
  if (!values.is_mapped && values.tensor.dim() == 3) return result;  // one for all: any leading dimensions will do
  result.values = values.expanded(size);
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
  const VmapLevel level;
  const auto indices = one_pattern(level, product::kBlockSparse.op, pattern);
  const VmapOperand first = level.in_front(dense), second = level.in_front(values);
  std::vector<VmapOperand> others;
  std::vector<Tensor> tensors;
  std::optional<c10::SymInt> size;
  const auto note = [&](const VmapOperand& operand) {
    if (operand.is_mapped) size = operand.tensor.sym_size(0);
  };
  note(first);
  note(second);
  for (const Tensor& argument : arguments) {
    note(others.emplace_back(level.in_front(argument)));
    tensors.push_back(others.back().tensor);
  }
  if (!size) return Op().call(name, first.tensor, second.tensor, indices, shape, transpose, tensors);
  const Mapped one = mapped(first, second, others, *size, shape, transpose);
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
