#include "signature/signature.h"

#include "signature/schema.h"

namespace torch_slang {

Signature::Signature(std::string ns_, Function function_, const std::vector<std::pair<std::string, int64_t>>& constants,
                     std::shared_ptr<TextSource> texts_, KernelOptions options_, const std::set<std::string>& names)
    : Declaration(std::move(ns_), std::move(function_), constants),
      layout(function.is_kernel ? Layout(function, shapes) : Layout(function, kTslMapDims)),
      options(options_),
      texts(std::move(texts_)) {
  for (size_t i = 0; i < function.leaves.size(); ++i) {
    const bool is_view = function.leaves[i].kind == LeafKind::View && !is_elementwise();
    shares.push_back(is_view ? thread_share(*this, static_cast<int>(i)) : ThreadShare());
  }
  for (int kind = 0; kind < kOpKinds; ++kind) {
    auto signature = make_signature(*this, static_cast<OpKind>(kind), names);
    if (signature == nullptr) continue;
    qualified_names[kind] = ns + "::" + signature->name;
    signatures[kind] = std::move(signature);
  }
}

}  // namespace torch_slang
