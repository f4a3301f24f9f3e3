#include "op/operator.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "op/schema.h"
#include "op/specialize.h"

namespace torch_slang {

const char* name_of(OpKind kind) {
  static const char* const names[kOpKinds] = {"forward", "backward", "launch", "fwd", "bwd"};
  return names[static_cast<int>(kind)];
}

Direction direction_of(OpKind kind) {
  switch (kind) {
    case OpKind::Backward:
    case OpKind::LaunchBackward: return Direction::Backward;
    case OpKind::LaunchJvp: return Direction::Jvp;
    case OpKind::Forward:
    case OpKind::Launch: break;
  }
  return Direction::Forward;
}

namespace {

// The shape language is for kernels: a mapped function has no part in it.
const Function& with_shapes(const Function& function) {
  static const Function none;
  return function.is_kernel ? function : none;
}

}  // namespace

Operator::Operator(std::string ns_, Function function_, const std::vector<std::pair<std::string, int64_t>>& constants,
                   std::shared_ptr<TextSource> texts_, KernelOptions options_, const std::set<std::string>& names)
    : ns(std::move(ns_)),
      function(std::move(function_)),
      shapes(ns + "::" + function.name, with_shapes(function), constants),
      layout(function.is_kernel ? Layout(function, shapes) : Layout(function, kTslMapDims)),
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
    shares.push_back(leaf.kind == LeafKind::View && !is_mapped() ? thread_share(*this, index) : ThreadShare());
    if (leaf.is_output) outputs.push_back(index);
    if (!leaf.differentiable) continue;
    (leaf.is_output ? grad_outputs : differentiable).push_back(index);
  }
  for (int kind = 0; kind < kOpKinds; ++kind) {
    auto signature = make_signature(*this, static_cast<OpKind>(kind), names);
    if (signature == nullptr) continue;
    qualified_names[kind] = ns + "::" + signature->name;
    signatures[kind] = std::move(signature);
  }
}

}  // namespace torch_slang
