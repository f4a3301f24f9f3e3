#include "kernels/signature.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <sstream>

#include "operators/argument_list.h"

namespace torch_slang {
namespace {

std::string number_type(const KernelSignature& op, int leaf) {
  const Leaf& self = op.function.leaves[leaf];
  const ElementType type = self.element.type;
  const bool generic = self.element.type_parameter >= 0;  // type parameters stand for floating-point types
  const std::string scalar = generic || is_floating_point(type)     ? "float"
                             : type == ElementType::Bool            ? "bool"
                             : op.shapes.symbol_of_value(leaf) >= 0 ? "SymInt"
                                                                    : "int";
  return self.element.shape.empty() ? scalar : scalar + "[]";
}

std::string default_of(const Leaf& leaf, const std::string& type) {
  if (!leaf.element.shape.empty() || leaf.differentiable) return "";
  if (type == "bool") return leaf.default_int ? (*leaf.default_int != 0 ? "=True" : "=False") : "";
  if (type == "float") {
    if (!leaf.default_float && !leaf.default_int) return "";
    std::ostringstream text;
    text.precision(17);
    text << "=" << (leaf.default_float ? *leaf.default_float : static_cast<double>(*leaf.default_int));
    const std::string shown = text.str();
    return shown.find_first_of(".en") == std::string::npos ? shown + ".0" : shown;
  }
  return leaf.default_int ? "=" + std::to_string(*leaf.default_int) : "";
}

bool is_tensor(const Leaf& leaf) { return leaf.is_view() || leaf.differentiable; }

// What an operator does with the arguments that it passes to the kernel.
enum class Passed : int8_t { Defaults, Given, Written };

void add_leaf(ArgumentList& list, const KernelSignature& op, int leaf, Passed passed) {
  const Leaf& self = op.function.leaves[leaf];
  const OpArgument argument{OpArgument::Role::Leaf, leaf};
  if (!is_tensor(self)) {
    const std::string type = number_type(op, leaf);
    list.add(type, self.name, passed == Passed::Defaults ? default_of(self, type) : "", argument);
  } else if (passed == Passed::Written && self.is_view() && !self.view().is_in) {
    list.add_written(self.name, argument);
  } else {
    list.add("Tensor", self.name, "", argument);
  }
}

std::unique_ptr<OpSignature> forward_op(const KernelSignature& op) {
  ArgumentList list;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    if (!op.function.leaves[i].is_output) add_leaf(list, op, static_cast<int>(i), Passed::Defaults);
  }
  return std::move(list).finish(op, op.function.name, op.outputs);
}

std::unique_ptr<OpSignature> backward_op(const KernelSignature& op) {
  ArgumentList list;
  add_backward(op, list, [&](int leaf) { add_leaf(list, op, leaf, Passed::Given); });
  return std::move(list).finish(op, op.function.name + "_backward", op.differentiable);
}

// Each leaf, and for a derivative its gradient or tangent behind it, which is added to, or written. A plain launch takes
// gradients too, for kernels that do with them what they like: by name, since most do not.
std::unique_ptr<OpSignature> launch_op(const KernelSignature& op, OpKind kind, const std::string& name) {
  ArgumentList list;
  const auto gradient = [&](size_t leaf) { return OpArgument{OpArgument::Role::Gradient, static_cast<int>(leaf)}; };
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    add_leaf(list, op, static_cast<int>(i), Passed::Written);
    if (kind == OpKind::Launch || !leaf.differentiable) continue;
    const bool may_be_written = kind == OpKind::LaunchBackward || (leaf.is_view() && !leaf.view().is_in);
    const std::string added = gradient_name(op, kind, static_cast<int>(i));
    if (may_be_written) {
      list.add_optional_written(added, gradient(i));
    } else {
      list.add("Tensor?", added, "", gradient(i));
    }
  }
  list.add("int[]", added_name(op, kind, "block_size"), "", {OpArgument::Role::BlockSize, -1});
  list.add("int[]", added_name(op, kind, "grid_size"), "", {OpArgument::Role::GridSize, -1});
  for (size_t i = 0; i < op.function.leaves.size() && kind == OpKind::Launch; ++i) {
    if (!op.function.leaves[i].diff_view()) continue;
    list.add_written_keyword(gradient_name(op, kind, static_cast<int>(i)), gradient(i));
  }
  return std::move(list).finish(op, name, {});
}

void check_block_size(const KernelSignature& op) {
  for (const int64_t threads : op.function.kernel().block_size) {
    TORCH_CHECK(threads > 0, op.full_name(), ": expected BlockSize to be positive, but got ",
                c10::IntArrayRef(op.function.kernel().block_size));
  }
}

}  // namespace

KernelSignature::KernelSignature(std::string ns_, Function function_, const Constants& constants,
                                 std::shared_ptr<TextSource> texts_, KernelOptions options_,
                                 const std::set<std::string>& names, bool multiplies_)
    : Signature(std::move(ns_), std::move(function_), std::move(texts_), options_),
      shapes(full_name(), function, constants),
      dims(function, shapes),
      layout(function, dims.count()),
      multiplies(multiplies_) {
  check_block_size(*this);
  for (size_t i = 0; i < function.leaves.size(); ++i) {
    const bool is_view = function.leaves[i].is_view();
    shares.push_back(is_view ? thread_share(function, shapes, static_cast<int>(i)) : ThreadShare());
  }
  if (!outputs.empty()) add(OpKind::Forward, forward_op(*this));
  if (has_backward_op(*this)) add(OpKind::Backward, backward_op(*this));
  if (!function.tangents_of.empty()) return;
  const auto add_launch = [&](OpKind kind, const char* suffix) {
    add(kind, launch_op(*this, kind, free_name(function.name + suffix, names)));
  };
  add_launch(OpKind::Launch, "_launch");
  if (function.has_forward_derivative) add_launch(OpKind::LaunchJvp, "_fwd");
  if (function.has_backward) add_launch(OpKind::LaunchBackward, "_bwd");
}

}  // namespace torch_slang
