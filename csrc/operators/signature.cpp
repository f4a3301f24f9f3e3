#include "operators/signature.h"

namespace torch_slang {

Signature::Signature(std::string ns_, Function function_, std::shared_ptr<TextSource> texts_, KernelOptions options_)
    : ns(std::move(ns_)), function(std::move(function_)), texts(std::move(texts_)), options(options_) {
  for (size_t i = 0; i < function.leaves.size(); ++i) {
    const Leaf& leaf = function.leaves[i];
    const int index = static_cast<int>(i);
    if (leaf.is_hidden) {
      hidden.push_back(index);
      continue;
    }
    if (leaf.is_output) outputs.push_back(index);
    if (!leaf.differentiable) continue;
    if (leaf.is_output || leaf.is_written()) grad_outputs.push_back(index);
    if (!leaf.is_output) differentiable.push_back(index);
  }
}

void Signature::add(OpKind kind, std::unique_ptr<const OpSignature> op) {
  if (op == nullptr) return;
  qualified_names[static_cast<int>(kind)] = ns + "::" + op->name;
  ops_[static_cast<int>(kind)] = std::move(op);
}

Direction Signature::direction(OpKind kind) const {
  if (function.tangents_of.empty()) return direction_of(kind);
  return kind == OpKind::Backward ? Direction::TangentsBackward : Direction::Tangents;
}

const DeviceText& Signature::text(OpKind kind, const std::vector<ElementType>& types,
                                  const std::vector<int64_t>& sizes) const {
  const std::string& source = function.tangents_of.empty() ? function.text_name() : function.tangents_of;
  return texts->text(source, direction(kind), types, sizes);
}

bool same_schemas(const Signature& a, const Signature& b) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const auto* first = a.of(static_cast<OpKind>(kind));
    const auto* second = b.of(static_cast<OpKind>(kind));
    if ((first == nullptr) != (second == nullptr)) return false;
    if (first != nullptr && c10::toString(*first->schema) != c10::toString(*second->schema)) return false;
  }
  return true;
}

}  // namespace torch_slang
