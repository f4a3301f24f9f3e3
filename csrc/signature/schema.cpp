#include "signature/schema.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace torch_slang {

namespace {

std::string number_type(const Declaration& op, int leaf) {
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

bool is_tensor(const Leaf& leaf) { return leaf.kind == LeafKind::View || leaf.differentiable; }

// Writes the argument list. A default is only legal where every later argument has one too, or by keyword.
class ArgumentList {
 public:
  void add(const std::string& type, const std::string& name, const std::string& fallback, OpArgument argument) {
    items_.push_back({type + " " + name, fallback});
    arguments.push_back(argument);
  }
  // Given by keyword alone, and behind all others.
  void add_keyword(const std::string& type, const std::string& name, const std::string& fallback, OpArgument argument) {
    keywords_ += (keywords_.empty() ? ", *, " : ", ") + type + " " + name + fallback;
    arguments.push_back(argument);
  }

  std::string text() const {
    size_t first_default = items_.size();
    while (first_default > 0 && !items_[first_default - 1].second.empty()) --first_default;
    std::string joined;
    for (size_t i = 0; i < items_.size(); ++i) {
      joined += (i ? ", " : "") + items_[i].first + (i >= first_default ? items_[i].second : "");
    }
    return joined + keywords_;
  }

  std::vector<OpArgument> arguments;

 private:
  std::vector<std::pair<std::string, std::string>> items_;
  std::string keywords_;
};

void add_leaf(ArgumentList& list, const Declaration& op, int leaf, bool with_defaults, int* alias) {
  const Leaf& self = op.function.leaves[leaf];
  const OpArgument argument{OpArgument::Role::Leaf, leaf};
  if (!is_tensor(self)) {
    const std::string type = number_type(op, leaf);
    list.add(type, self.name, with_defaults ? default_of(self, type) : "", argument);
  } else if (alias != nullptr && self.kind == LeafKind::View && !self.is_in) {
    list.add("Tensor(a" + std::to_string((*alias)++) + "!)", self.name, "", argument);
  } else {
    list.add("Tensor", self.name, "", argument);
  }
}

std::string results_text(size_t count) {
  if (count == 1) return "Tensor";
  std::string text = "(";
  for (size_t i = 0; i < count; ++i) text += i ? ", Tensor" : "Tensor";
  return text + ")";
}

void fill_forward(const Declaration& op, ArgumentList& list, OpSignature& signature) {
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    if (!op.function.leaves[i].is_output) add_leaf(list, op, static_cast<int>(i), true, nullptr);
  }
  signature.results = op.outputs;
}

// The name of an argument that the kernel does not have. A parameter of that name goes first.
std::string added_name(const Declaration& op, OpKind kind, const std::string& name) {
  const auto& leaves = op.function.leaves;
  const bool taken = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return leaf.name == name; });
  return taken ? added_name(op, kind, (kind == OpKind::Backward ? "backward_" : "launch_") + name) : name;
}

std::string gradient_name(const Declaration& op, OpKind kind, int leaf) {
  return added_name(op, kind, (kind == OpKind::LaunchJvp ? "tangent_" : "grad_") + op.function.leaves[leaf].name);
}

void fill_backward(const Declaration& op, ArgumentList& list, OpSignature& signature) {
  for (const int leaf : op.grad_outputs) {
    list.add("Tensor", gradient_name(op, OpKind::Backward, leaf), "", {OpArgument::Role::Gradient, leaf});
  }
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    if (!op.function.leaves[i].is_output) add_leaf(list, op, static_cast<int>(i), false, nullptr);
  }
  list.add("bool[]", added_name(op, OpKind::Backward, "mask"), "", {OpArgument::Role::Mask, -1});
  signature.results = op.differentiable;
}

// Each leaf, and for a derivative its gradient or tangent behind it, which is added to, or written. A plain launch takes
// gradients too, for kernels that do with them what they like: by name, since most do not.
void fill_launch(const Declaration& op, OpKind kind, ArgumentList& list) {
  int alias = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    add_leaf(list, op, static_cast<int>(i), false, &alias);
    if (kind == OpKind::Launch || !leaf.differentiable) continue;
    const bool may_be_written = kind == OpKind::LaunchBackward || (leaf.kind == LeafKind::View && !leaf.is_in);
    list.add(may_be_written ? "Tensor(a" + std::to_string(alias++) + "!)?" : "Tensor?",
             gradient_name(op, kind, static_cast<int>(i)), "", {OpArgument::Role::Gradient, static_cast<int>(i)});
  }
  list.add("int[]", added_name(op, kind, "block_size"), "", {OpArgument::Role::BlockSize, -1});
  list.add("int[]", added_name(op, kind, "grid_size"), "", {OpArgument::Role::GridSize, -1});
  for (size_t i = 0; i < op.function.leaves.size() && kind == OpKind::Launch; ++i) {
    if (op.function.leaves[i].diff_view < 0) continue;
    list.add_keyword("Tensor(a" + std::to_string(alias++) + "!)?", gradient_name(op, kind, static_cast<int>(i)),
                     "=None", {OpArgument::Role::Gradient, static_cast<int>(i)});
  }
}

// Of an elementwise function: writes into the outputs that it is given.
void fill_out(const Declaration& op, ArgumentList& list) {
  int alias = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    list.add(leaf.is_output ? "Tensor(a" + std::to_string(alias++) + "!)" : "Tensor", leaf.name, "",
             {OpArgument::Role::Leaf, static_cast<int>(i)});
  }
}

void check_names(const Declaration& op, const ArgumentList& list, const c10::FunctionSchema& schema) {
  std::set<std::string> names;
  for (const auto& argument : schema.arguments()) {
    TORCH_CHECK(names.insert(argument.name()).second, op.ns, "::", op.function.name, ": two arguments are named '",
                argument.name(), "'");
  }
  TORCH_INTERNAL_ASSERT(names.size() == list.arguments.size());
}

c10::FunctionSchema parse_schema(const Declaration& op, const std::string& text) {
  try {
    return torch::schema(text.c_str());
  } catch (const std::exception& error) {  // not a c10::Error
    TORCH_CHECK(false, op.ns, "::", op.function.name,
                ": the name of a kernel or an argument means something else in PyTorch's schemas; rename it\n",
                error.what());
  }
}

}  // namespace

std::unique_ptr<const OpSignature> make_signature(const Declaration& op, OpKind kind,
                                                  const std::set<std::string>& names) {
  static const char* const suffix[kOpKinds] = {"", "_backward", "_launch", "_fwd", "_bwd"};
  if (op.is_elementwise() && (kind == OpKind::LaunchJvp || kind == OpKind::LaunchBackward)) return nullptr;
  if ((op.is_elementwise() || !is_launch(kind)) && op.outputs.empty()) return nullptr;
  if (kind == OpKind::LaunchJvp && !op.function.has_forward_derivative) return nullptr;
  if (kind == OpKind::LaunchBackward && !op.function.has_backward) return nullptr;
  if (kind == OpKind::Backward && (!op.function.has_backward || op.grad_outputs.empty() || op.differentiable.empty())) {
    return nullptr;
  }
  auto signature = std::make_unique<OpSignature>();
  const bool writes_outputs = op.is_elementwise() && kind == OpKind::Launch;
  signature->name = op.function.name + (writes_outputs ? "_out" : suffix[static_cast<int>(kind)]);
  while (is_launch(kind) && names.count(signature->name) != 0) signature->name += "_";
  ArgumentList list;
  if (kind == OpKind::Forward) fill_forward(op, list, *signature);
  if (kind == OpKind::Backward) fill_backward(op, list, *signature);
  if (writes_outputs) fill_out(op, list);
  if (is_launch(kind) && !writes_outputs) fill_launch(op, kind, list);
  const std::string text =
      op.ns + "::" + signature->name + "(" + list.text() + ") -> " + results_text(signature->results.size());
  signature->schema = std::make_unique<c10::FunctionSchema>(parse_schema(op, text));
  check_names(op, list, *signature->schema);
  signature->arguments = std::move(list.arguments);
  return signature;
}

}  // namespace torch_slang
