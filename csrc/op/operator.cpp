#include "op/operator.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "op/schema.h"

namespace torch_slang {

Operator::Operator(std::string ns_, Function function_, const std::vector<std::pair<std::string, int64_t>>& constants,
                   std::shared_ptr<TextSource> texts_, KernelOptions options_)
    : ns(std::move(ns_)),
      function(std::move(function_)),
      shapes(ns + "::" + function.name, function, constants),
      layout(function, shapes),
      options(options_),
      texts(std::move(texts_)),
      kernels(options_) {
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
  for (int kind = 0; kind < kOpKinds; ++kind) {
    signatures[kind] = make_signature(*this, static_cast<OpKind>(kind));
    if (signatures[kind]) qualified_names[kind] = ns + "::" + signatures[kind]->name;
  }
}

}  // namespace torch_slang
