#include "functions/arguments.h"

#include <ATen/core/ATen_fwd.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <type_traits>

#include "functions/generated_arguments.h"
#include "functions/promotion.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

class Reader {
 public:
  Reader(const ElementwiseSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack)
      : op_(op), kind_(kind), name_(op.qualified(kind)), result_(read_stack(op, kind, stack)) {
    check_given();
    // Single elements may stay on the host, as in PyTorch's own ops, if they have slots to travel in.
    resolve_device(op, kind, result_, [](const Leaf& leaf, const at::Tensor& tensor) {
      return !leaf.is_output && !leaf.is_whole() && leaf.place().slot && is_weak(leaf, tensor);
    });
    resolve_sizes();
    resolve_types();
    check_elements();
  }

  Arguments take() && { return std::move(result_); }

 private:
  const Leaf& leaf(size_t i) const { return op_.function.leaves[i]; }

  // `use(leaf's index, tensor, "grad_" or "")` for each tensor that is given.
  template <class Use>
  void each(const Use& use) {
    result_.each_tensor([&](int i, const at::Tensor& tensor, OpArgument::Role role) {
      use(static_cast<size_t>(i), tensor, role == OpArgument::Role::Gradient ? "grad_" : "");
    });
  }

  void check_given() const {
    for (const OpArgument& argument : op_.of(kind_)->arguments) {
      if (argument.leaf < 0) continue;
      if (const c10::IValue* list = result_.numbers[argument.leaf]; list != nullptr) {
        read_generated(name_, leaf(argument.leaf), *list);
        continue;
      }
      const bool is_gradient = argument.role == OpArgument::Role::Gradient;
      const at::Tensor& tensor = (is_gradient ? result_.gradients : result_.tensors)[argument.leaf];
      TORCH_CHECK(tensor.defined(), name_, ": expected ", leaf(argument.leaf).name, " to be a tensor, but got None");
    }
  }

  // One element, which has no say in the type that others decide.
  static bool is_weak(const Leaf& leaf, const at::Tensor& tensor) {
    return tensor.dim() <= static_cast<int64_t>(leaf.element.shape.size());
  }

  void resolve_sizes() {
    const size_t count = op_.function.size_count();
    if (count == 0) return;
    result_.sizes.resize(count, -1);
    if (!op_.function.plain().given_sizes.empty())
      result_.sizes.assign(op_.function.plain().given_sizes.begin(), op_.function.plain().given_sizes.end());
    each([&](size_t i, const at::Tensor& tensor, const char* prefix) {
      const auto& shape = leaf(i).element.shape;
      check_rank(i, tensor, prefix);
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] >= 0) continue;
        const auto given = tensor.sym_sizes()[tensor.dim() - shape.size() + d].guard_int(__FILE__, __LINE__);
        const int64_t k = -1 - shape[d];
        int64_t& size = result_.sizes[k];
        const bool is_set = !op_.function.plain().given_sizes.empty() && op_.function.plain().given_sizes[k] >= 0;
        TORCH_CHECK(size < 0 || size == given, name_, ": expected ", op_.function.plain().size_parameters[k], " to be ",
                    is_set ? std::to_string(size) + ", as the generic arguments say" : "the same in all arguments",
                    ", but ", prefix, leaf(i).name, " (", leaf(i).slang_type, ") has ", given,
                    is_set ? "" : " where others have " + std::to_string(size), ": shape ", tensor.sym_sizes());
        size = given;
      }
    });
    for (size_t k = 0; k < count; ++k) {
      TORCH_CHECK(result_.sizes[k] >= 0, name_, ": no argument says what ", op_.function.plain().size_parameters[k],
                  " is");
      TORCH_CHECK(result_.sizes[k] > 0, name_, ": expected ", op_.function.plain().size_parameters[k],
                  " to be at least 1, but got 0");
    }
  }

  void resolve_types() {
    const auto& parameters = op_.function.type_parameters;
    if (parameters.empty()) return;
    result_.types.resize(parameters.size());
    c10::SmallVector<PromotedInput, 8> inputs;
    for (size_t i = 0; i < result_.tensors.size(); ++i) {
      const at::Tensor& tensor = result_.tensors[i];
      if (!tensor.defined() || leaf(i).is_output) continue;
      inputs.push_back({leaf(i), tensor.scalar_type(), !is_weak(leaf(i), tensor)});
    }
    for (size_t k = 0; k < parameters.size(); ++k) {
      const auto type = type_of_parameter(op_.function, static_cast<int>(k), inputs);
      TORCH_CHECK(type, name_, ": no argument says what ", parameters[k].name, " is");
      result_.types[k] = allowed_type(parameters[k], *type);
    }
  }

  ElementType allowed_type(const TypeParameter& parameter, c10::ScalarType type) const {
    const auto& allowed = parameter.allowed;
    const auto is_allowed = [&](c10::ScalarType candidate) {
      const auto element = element_type_of(candidate);
      return element && std::find(allowed.begin(), allowed.end(), *element) != allowed.end();
    };
    if (!is_allowed(type) && c10::isIntegralType(type, /*includeBool=*/true)) {
      const auto standard = c10::typeMetaToScalarType(c10::get_default_dtype());
      if (is_allowed(standard)) return *element_type_of(standard);
    }
    if (!is_allowed(type)) {
      throw_wrong_dtype(name_, {"the arguments of type " + parameter.name + " together", allowed, ""}, type);
    }
    return *element_type_of(type);
  }

  void check_rank(size_t i, const at::Tensor& tensor, const char* prefix) const {
    const auto& shape = leaf(i).element.shape;
    TORCH_CHECK(tensor.dim() >= static_cast<int64_t>(shape.size()), name_, ": expected ", prefix, leaf(i).name, " (",
                leaf(i).slang_type, ") to have at least ", shape.size(), " dimensions, its elements', but got shape ",
                tensor.sym_sizes());
  }

  void check_elements() {
    each([&](size_t i, const at::Tensor& tensor, const char* prefix) {
      check_rank(i, tensor, prefix);
      const auto shape = result_.element_shape(leaf(i));
      for (size_t d = 0; d < shape.size(); ++d) {
        const auto& given = tensor.sym_sizes()[tensor.dim() - shape.size() + d];
        TORCH_CHECK(given == shape[d], name_, ": expected the shape of ", prefix, leaf(i).name, " (",
                    leaf(i).slang_type, ") to end in ", c10::IntArrayRef(shape), ", but got ", tensor.sym_sizes());
      }
      check_dtype(i, tensor, prefix);
      if (leaf(i).is_whole()) check_visible(leaf(i), tensor);
    });
  }

  // What a function that sees the tensor can name.
  void check_visible(const Leaf& leaf, const at::Tensor& tensor) const {
    const size_t rank = tensor.dim() - leaf.element.shape.size();
    TORCH_CHECK(!leaf.view().rank || rank == static_cast<size_t>(*leaf.view().rank), name_, ": expected ", leaf.name,
                " (", leaf.slang_type, ") to have ", *leaf.view().rank + leaf.element.shape.size(), " dimensions",
                leaf.element.shape.empty() ? "" : ", its elements' included", ", but got shape ", tensor.sym_sizes());
    check_visible_rank(name_, leaf, rank, tensor.sym_sizes());
    for (size_t d = 0; d < rank; ++d) {
      check_visible_size(name_, leaf, d, tensor.sym_sizes()[d].maybe_as_int().value_or(0));
    }
  }

  void check_dtype(size_t i, const at::Tensor& tensor, const char* prefix) const {
    const ElementType declared = result_.type_of(leaf(i));
    const auto wanted = scalar_type(declared);
    const auto given = tensor.scalar_type();
    if (given == wanted) return;
    const auto fail = [&](const std::string& why, bool converts) {
      throw_wrong_dtype(name_, {prefix + leaf(i).name, declared, why, converts}, given);
    };
    if (leaf(i).is_output && *prefix == '\0') fail(", the result's", false);
    const std::string& type = leaf(i).slang_type;
    if (leaf(i).is_whole()) fail(" (" + type + "), since a tensor that is seen whole is not converted", true);
    const bool weak = leaf(i).element.type_parameter >= 0 && is_weak(leaf(i), tensor);  // decided already
    const bool fits = element_type_of(given) && (weak || leaf(i).is_output || widens(given, wanted));
    if (!fits) fail(" (" + type + ") or one that widens to it", true);
  }

  const ElementwiseSignature& op_;
  const OpKind kind_;
  const std::string& name_;
  Arguments result_;
};

// Note [unbacked sizes]
//   A trace may know nothing of a size but its name. As in PyTorch such a size counts as neither 1 nor any other size
//   (known_equal), and where it must be one, that is left to a check as the trace runs (must_equal).
bool known_equal(int64_t a, int64_t b) { return a == b; }
bool known_equal(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).guard_or_false(__FILE__, __LINE__); }
bool must_equal(int64_t a, int64_t b) { return a == b; }
bool must_equal(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).expect_true(__FILE__, __LINE__); }

// Whether these sizes broadcast with the shape, which is to be what they have together.
template <class Int>
bool join(OuterShape<Int>& shape, c10::ArrayRef<Int> sizes) {
  if (sizes.size() > shape.size()) shape.insert(shape.begin(), sizes.size() - shape.size(), Int(1));
  for (size_t d = 0; d < sizes.size(); ++d) {
    Int& mine = shape[shape.size() - sizes.size() + d];
    if (known_equal(mine, sizes[d]) || known_equal(sizes[d], Int(1))) continue;
    if (known_equal(mine, Int(1))) {
      mine = sizes[d];
    } else if (!must_equal(mine, sizes[d])) {
      return false;
    }
  }
  return true;
}

template <class Int>
bool ends_in(const OuterShape<Int>& shape, c10::ArrayRef<Int> sizes) {
  const size_t before = shape.size() - sizes.size();
  bool same = sizes.size() <= shape.size();
  for (size_t d = 0; same && d < sizes.size(); ++d) same = must_equal(shape[before + d], sizes[d]);
  return same;
}

// The shape that a generated argument was told.
template <class Int>
OuterShape<Int> shape_of(const Generated& generated) {
  OuterShape<Int> shape;
  for (const c10::SymInt& size : generated.shape) {
    if constexpr (std::is_same_v<Int, int64_t>) {
      shape.push_back(size.guard_int(__FILE__, __LINE__));
    } else {
      shape.push_back(size);
    }
  }
  return shape;
}

// What generated arguments were told is the shape that all have together, or under vmap what each sample has of it.
template <class Int>
void join_generated(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments, OuterShape<Int>& shape) {
  const auto each = [&](const auto& fits) {
    for (size_t i = 0; i < arguments.numbers.size(); ++i) {
      if (arguments.numbers[i] == nullptr) continue;
      const Leaf& leaf = op.function.leaves[i];
      const auto own = shape_of<Int>(read_generated(op.qualified(kind), leaf, *arguments.numbers[i]));
      TORCH_CHECK(fits(own), op.qualified(kind), ": expected ", leaf.name, " to be generated for the call's shape ",
                  c10::ArrayRef<Int>(shape), ", but got ", c10::ArrayRef<Int>(own));
    }
  };
  each([&](const OuterShape<Int>& own) { return join<Int>(shape, own); });
  each([&](const OuterShape<Int>& own) { return ends_in<Int>(shape, own); });
}

}  // namespace

Arguments read_arguments(const ElementwiseSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  return Reader(op, kind, stack).take();
}

template <class Int>
OuterShape<Int> broadcast(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments) {
  OuterShape<Int> shape;
  const auto outer = [&](const at::Tensor& tensor, const Leaf& leaf) {
    return sizes_of<Int>(tensor).slice(0, tensor.dim() - leaf.element.shape.size());
  };
  const auto refuse = [&](const Leaf& leaf, const at::Tensor& tensor) {
    std::string others;
    for (size_t i = 0; i < arguments.tensors.size(); ++i) {
      if (!arguments.tensors[i].defined() || op.function.leaves[i].is_output || op.function.leaves[i].is_whole())
        continue;
      others += c10::str(others.empty() ? "" : ", ", op.function.leaves[i].name, " (", op.function.leaves[i].slang_type,
                         ") ", arguments.tensors[i].sym_sizes());
    }
    TORCH_CHECK(false, op.qualified(kind), ": expected the shapes of all arguments to broadcast, but ", leaf.name,
                " has shape ", tensor.sym_sizes(), " among ", others);
  };
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const at::Tensor& tensor = arguments.tensors[i];
    const Leaf& leaf = op.function.leaves[i];
    if (!tensor.defined() || leaf.is_output || leaf.is_whole()) continue;
    if (!join<Int>(shape, outer(tensor, leaf))) refuse(leaf, tensor);
  }
  join_generated(op, kind, arguments, shape);
  const auto check_exact = [&](const at::Tensor& tensor, const Leaf& leaf, const char* prefix) {
    if (!tensor.defined() || !leaf.is_output) return;
    const auto sizes = outer(tensor, leaf);
    bool same = sizes.size() == shape.size();
    for (size_t d = 0; same && d < shape.size(); ++d) same = must_equal(sizes[d], shape[d]);
    if (same) return;
    OuterShape<Int> expected = shape;
    for (const int64_t n : arguments.element_shape(leaf)) expected.push_back(Int(n));
    TORCH_CHECK(false, op.qualified(kind), ": expected ", prefix, leaf.name, " to have the result's shape ",
                c10::ArrayRef<Int>(expected), ", but got ", tensor.sym_sizes());
  };
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    check_exact(arguments.tensors[i], op.function.leaves[i], "");
    if (!arguments.gradients.empty()) check_exact(arguments.gradients[i], op.function.leaves[i], "grad_");
  }
  return shape;
}

template OuterShape<int64_t> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);
template OuterShape<c10::SymInt> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);

}  // namespace torch_slang
