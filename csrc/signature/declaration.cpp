#include "signature/declaration.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

namespace torch_slang {
namespace {

// The shape language is for kernels: an elementwise function has no part in it.
const Function& with_shapes(const Function& function) {
  static const Function none;
  return function.is_kernel ? function : none;
}

}  // namespace

Declaration::Declaration(std::string ns_, Function function_,
                         const std::vector<std::pair<std::string, int64_t>>& constants)
    : ns(std::move(ns_)),
      function(std::move(function_)),
      shapes(ns + "::" + function.name, with_shapes(function), constants) {
  for (const int64_t threads : function.block_size) {
    TORCH_CHECK(threads > 0, ns, "::", function.name, ": expected BlockSize to be positive, but got ",
                c10::IntArrayRef(function.block_size));
  }
  for (size_t i = 0; i < function.leaves.size(); ++i) {
    const Leaf& leaf = function.leaves[i];
    const int index = static_cast<int>(i);
    if (leaf.is_output) outputs.push_back(index);
    if (!leaf.differentiable) continue;
    (leaf.is_output ? grad_outputs : differentiable).push_back(index);
  }
}

}  // namespace torch_slang
