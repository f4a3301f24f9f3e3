#include "operators/argument_list.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <set>

namespace torch_slang {
namespace {

std::string results_text(size_t count) {
  if (count == 1) return "Tensor";
  std::string text = "(";
  for (size_t i = 0; i < count; ++i) text += i ? ", Tensor" : "Tensor";
  return text + ")";
}

c10::FunctionSchema parse_schema(const Signature& signature, const std::string& text) {
  try {
    return torch::schema(text.c_str());
  } catch (const std::exception& error) {  // not a c10::Error
    TORCH_CHECK(false, signature.full_name(),
                ": the name of a kernel or an argument means something else in PyTorch's schemas; rename it\n",
                error.what());
  }
}

void check_names(const Signature& signature, const c10::FunctionSchema& schema, size_t count) {
  std::set<std::string> names;
  for (const auto& argument : schema.arguments()) {
    TORCH_CHECK(names.insert(argument.name()).second, signature.full_name(), ": two arguments are named '",
                argument.name(), "'");
  }
  TORCH_INTERNAL_ASSERT(names.size() == count);
}

}  // namespace

void ArgumentList::add(const std::string& type, const std::string& name, const std::string& fallback,
                       OpArgument argument) {
  items_.push_back({type + " " + name, fallback});
  arguments_.push_back(argument);
}

void ArgumentList::add_keyword(const std::string& type, const std::string& name, const std::string& fallback,
                               OpArgument argument) {
  keywords_ += (keywords_.empty() ? ", *, " : ", ") + type + " " + name + fallback;
  arguments_.push_back(argument);
}

std::string ArgumentList::text() const {
  size_t first_default = items_.size();
  while (first_default > 0 && !items_[first_default - 1].second.empty()) --first_default;
  std::string joined;
  for (size_t i = 0; i < items_.size(); ++i) {
    joined += (i ? ", " : "") + items_[i].first + (i >= first_default ? items_[i].second : "");
  }
  return joined + keywords_;
}

std::unique_ptr<OpSignature> ArgumentList::finish(const Signature& signature, const std::string& name,
                                                  std::vector<int> results) && {
  auto op = std::make_unique<OpSignature>();
  op->name = name;
  op->results = std::move(results);
  const std::string schema = signature.ns + "::" + name + "(" + text() + ") -> " + results_text(op->results.size());
  op->schema = std::make_unique<c10::FunctionSchema>(parse_schema(signature, schema));
  check_names(signature, *op->schema, arguments_.size());
  op->arguments = std::move(arguments_);
  op->packed = packed_arguments(*op, signature.function, signature.ns + "::" + name);
  return op;
}

std::unique_ptr<const PackedArguments> packed_arguments(const OpSignature& op, const Function& function,
                                                        const std::string& qualified) {
  std::vector<const Leaf*> leaves;
  for (const auto& [role, leaf] : op.arguments)
    leaves.push_back(role == OpArgument::Role::Leaf ? &function.leaves[leaf] : nullptr);
  return PackedArguments::of(*op.schema, leaves, qualified);
}

std::string added_name(const Signature& signature, OpKind kind, const std::string& name) {
  const auto& leaves = signature.function.leaves;
  const bool is_parameter =
      std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return leaf.name == name; });
  return is_parameter ? added_name(signature, kind, (kind == OpKind::Backward ? "backward_" : "launch_") + name) : name;
}

std::string gradient_name(const Signature& signature, OpKind kind, int leaf) {
  const char* const prefix = kind == OpKind::LaunchJvp ? "tangent_" : "grad_";
  return added_name(signature, kind, prefix + signature.function.leaves[leaf].name);
}

bool has_backward_op(const Signature& signature) {
  return signature.function.has_backward && !signature.grad_outputs.empty() && !signature.differentiable.empty();
}

std::string free_name(std::string name, const std::set<std::string>& names) {
  while (names.count(name) != 0) name += "_";
  return name;
}

}  // namespace torch_slang
