#include "functions/signature.h"

#include <algorithm>

#include "operators/argument_list.h"

namespace torch_slang {
namespace {

// Of an input: Note [generated arguments] in functions/generated_arguments.h.
const char* input_type(const Leaf& leaf) { return leaf.is_generated() ? "SymInt[]" : "Tensor"; }

void add_input(const Signature& signature, ArgumentList& list, int leaf) {
  const Leaf& self = signature.function.leaves[leaf];
  const OpArgument argument{OpArgument::Role::Leaf, leaf};
  if (self.is_written()) {
    list.add_written(self.name, argument);
  } else {
    list.add(input_type(self), self.name, "", argument);
  }
}

std::unique_ptr<OpSignature> forward_op(const Signature& signature) {
  ArgumentList list;
  for (size_t i = 0; i < signature.function.leaves.size(); ++i) {
    if (!signature.function.leaves[i].is_output) add_input(signature, list, static_cast<int>(i));
  }
  return std::move(list).finish(signature, signature.function.name, signature.outputs);
}

std::unique_ptr<OpSignature> backward_op(const Signature& signature) {
  ArgumentList list;
  add_backward(signature, list, [&](int leaf) {
    const Leaf& self = signature.function.leaves[leaf];
    list.add(input_type(self), self.name, "", {OpArgument::Role::Leaf, leaf});
  });
  return std::move(list).finish(signature, signature.function.name + "_backward", signature.differentiable);
}

// Writes into the outputs that it is given.
std::unique_ptr<OpSignature> out_op(const Signature& signature, const std::set<std::string>& names) {
  ArgumentList list;
  for (size_t i = 0; i < signature.function.leaves.size(); ++i) {
    const Leaf& leaf = signature.function.leaves[i];
    if (leaf.is_output) {
      list.add_written(leaf.name, {OpArgument::Role::Leaf, static_cast<int>(i)});
    } else {
      add_input(signature, list, static_cast<int>(i));
    }
  }
  return std::move(list).finish(signature, free_name(signature.function.name + "_out", names), {});
}

}  // namespace

ElementwiseSignature::ElementwiseSignature(const std::string& ns_, Function function_,
                                           std::shared_ptr<TextSource> texts_, KernelOptions options_,
                                           const std::set<std::string>& names)
    : Signature(function_.has_values ? ns_ + "_dual" : ns_, std::move(function_), std::move(texts_), options_),
      layout(function, kTslMapDims) {
  const auto& leaves = function.leaves;
  const bool changes_tensors =
      std::any_of(leaves.begin(), leaves.end(), [](const Leaf& leaf) { return leaf.is_written(); });
  if (outputs.empty() && !changes_tensors) return;
  add(OpKind::Forward, forward_op(*this));
  if (function.has_values)
    qualified_names[static_cast<int>(OpKind::Forward)] = ns_ + "::" + function.name;  // messages call it so
  if (has_backward_op(*this)) add(OpKind::Backward, backward_op(*this));
  if (function.tangents_of.empty() && !outputs.empty()) add(OpKind::Launch, out_op(*this, names));
}

}  // namespace torch_slang
