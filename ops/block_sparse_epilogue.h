// Block-sparse products with an epilogue, for their files. Any thread may call any of it.
//
//   block_sparse_mm_with_epilogue(epilogue, dense, values, pattern, shape, transpose, arguments) -> y
//   block_sparse_mm_with_epilogue_and_sum(...) -> (y, sum): for a forward that is recorded, since the function's derivative
//                                              looks at sum
//
// y = f(sum, arguments...) for each element of sum = block_sparse_mm(dense, values, pattern, shape, transpose), where it has no
// blocks too; each argument broadcasts to it.
#pragma once

#include <vector>

#include "block_sparse.h"
#include "epilogue.h"

namespace torch_slang::block_sparse {

using product::Epilogue;
using product::TensorPair;

using EpilogueOp = c10::TypedOperatorHandle<Tensor(c10::string_view, const Tensor&, const Tensor&, at::TensorList,
                                                   Sizes, bool, at::TensorList)>;
using EpilogueAndSumOp = c10::TypedOperatorHandle<TensorPair(c10::string_view, const Tensor&, const Tensor&,
                                                             at::TensorList, Sizes, bool, at::TensorList)>;
const EpilogueOp& mm_with_epilogue();
const EpilogueAndSumOp& mm_with_epilogue_and_sum();

inline const Epilogue& epilogue_named(c10::string_view name) {
  return product::epilogue_named(product::kBlockSparse, name);
}

}  // namespace torch_slang::block_sparse
