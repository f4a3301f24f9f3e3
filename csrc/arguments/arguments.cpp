#include "arguments/arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <type_traits>

#include "kernel/view_packing.h"
#include "signature/element_types.h"

namespace torch_slang {

std::string dtype_text(c10::ScalarType type) {
  const auto known = element_type_of(type);
  return known ? name_of(*known) : c10::toString(type);
}

std::string how_to_convert(const std::string& name, c10::ScalarType given, ElementType expected) {
  const auto type = element_type_of(given);
  const bool are_integers = type && !is_floating_point(*type) && !is_floating_point(expected) &&
                            *type != ElementType::Bool && expected != ElementType::Bool;
  if (!are_integers) return "";
  return c10::str("; convert it before the call, ", name, ".to(torch.", name_of(expected), "), if its values fit");
}

std::string join_types(const std::vector<ElementType>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == types.size() ? " or " : ", ") + std::string(name_of(types[i]));
  }
  return text;
}

namespace {

// A tensor argument with what its leaf wants of it.
struct Given {
  const at::Tensor* tensor;
  const Leaf* leaf;
  OpArgument meaning;
};

// As the operator calls it.
const std::string& name_of_argument(const Signature& op, OpKind kind, OpArgument meaning) {
  const OpSignature& signature = *op.signature(kind);
  size_t at = 0;
  while (signature.arguments[at].role != meaning.role || signature.arguments[at].leaf != meaning.leaf) ++at;
  return signature.schema->arguments()[at].name();
}

class Reader {
 public:
  Reader(const Signature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack)
      : op_(op), kind_(kind), name_(op.qualified_names[static_cast<int>(kind)]) {
    const size_t leaves = op.function.leaves.size();
    result_.tensors.resize(leaves);
    result_.numbers.resize(leaves, nullptr);
    if (kind != OpKind::Forward) result_.gradients.resize(leaves);
    read(stack);
    collect();
    check_devices();
    resolve_types();
    check_dtypes();
  }

  Arguments take() && { return std::move(result_); }

 private:
  void read(c10::ArrayRef<c10::IValue> stack) {
    const auto& arguments = op_.signature(kind_)->arguments;
    TORCH_INTERNAL_ASSERT(arguments.size() == stack.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto [role, leaf] = arguments[i];
      switch (role) {
        case OpArgument::Role::Leaf:
          if (stack[i].isTensor()) {
            result_.tensors[leaf] = stack[i].toTensor();
            TORCH_CHECK(result_.tensors[leaf].defined(), name_, ": expected ", op_.function.leaves[leaf].name,
                        " to be a tensor, but got None");
          } else {
            result_.numbers[leaf] = &stack[i];
            check_multiple(op_.function.leaves[leaf], stack[i]);
          }
          break;
        case OpArgument::Role::Gradient:
          if (stack[i].isTensor()) result_.gradients[leaf] = stack[i].toTensor();
          break;
        case OpArgument::Role::Mask: read_mask(stack[i]); break;
        case OpArgument::Role::BlockSize: read_extent(stack[i], "block_size", result_.block_size); break;
        case OpArgument::Role::GridSize: read_extent(stack[i], "grid_size", result_.grid_size); break;
      }
    }
  }

  void check_multiple(const Leaf& leaf, const c10::IValue& value) const {
    if (leaf.multiple_of == 1) return;
    const auto rule = [&] {
      return c10::str(name_, ": expected ", leaf.name, " to be a multiple of ", leaf.multiple_of);
    };
    if (value.isSymInt() && !value.toSymInt().maybe_as_int()) {
      const c10::SymInt rest = value.toSymInt() % c10::SymInt(leaf.multiple_of);
      TORCH_CHECK(rest.sym_eq(0).expect_true(__FILE__, __LINE__), rule());
      return;
    }
    const int64_t number = value.isSymInt() ? *value.toSymInt().maybe_as_int() : value.toInt();
    TORCH_CHECK(number % leaf.multiple_of == 0, rule(), ", but got ", number);
  }

  void collect() {
    for (const bool gradients : {false, true}) {
      const auto role = gradients ? OpArgument::Role::Gradient : OpArgument::Role::Leaf;
      const auto& tensors = gradients ? result_.gradients : result_.tensors;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].defined()) {
          given_.push_back({&tensors[i], &op_.function.leaves[i], {role, static_cast<int>(i)}});
        }
      }
    }
  }

  void read_mask(const c10::IValue& value) {
    for (const bool wanted : value.toBoolList()) result_.mask.push_back(wanted);
    TORCH_CHECK(result_.mask.size() == op_.differentiable.size(), name_, ": expected mask to have ",
                op_.differentiable.size(), " elements, one for each differentiable argument, but got ",
                result_.mask.size());
  }

  void read_extent(const c10::IValue& value, const char* what, c10::SmallVector<int64_t, 3>& extent) {
    const auto list = value.toIntVector();
    TORCH_CHECK(!list.empty() && list.size() <= 3, name_, ": expected ", what, " to have 1 to 3 elements, but got ",
                c10::IntArrayRef(list));
    for (const int64_t n : list) {
      TORCH_CHECK(n > 0 && n <= 0xffffffffLL, name_, ": expected ", what,
                  " to be positive and to fit in 32 bits, but got ", c10::IntArrayRef(list));
    }
    extent.assign(list.begin(), list.end());
    extent.resize(3, 1);
  }

  // The device is that of the views; a differentiable scalar may stay on the CPU, as in PyTorch's own ops.
  void check_devices() {
    const Given* first = nullptr;
    for (const Given& given : given_) {
      if (given.leaf->kind == LeafKind::Value && given.tensor->dim() == 0 && given.tensor->device().is_cpu()) continue;
      if (first == nullptr) {
        first = &given;
        result_.device = given.tensor->device();
      }
      TORCH_CHECK(given.tensor->device() == result_.device, name_,
                  ": expected all tensors to be on the same device, but ", name_of_given(*first), " is on ",
                  result_.device, " and ", name_of_given(given), " is on ", given.tensor->device());
      TORCH_CHECK(given.tensor->layout() == c10::kStrided, name_, ": expected ", name_of_given(given),
                  " to be a strided tensor, but got ", given.tensor->layout());
    }
    if (first == nullptr && !given_.empty()) result_.device = given_.front().tensor->device();
  }

  void resolve_types() {
    const auto& parameters = op_.function.type_parameters;
    if (parameters.empty()) return;
    c10::SmallVector<bool, 4> decided(parameters.size(), false);
    result_.types.resize(parameters.size());
    for (const Given& given : given_) {
      const int index = given.leaf->element.type_parameter;
      if (index < 0 || decided[index]) continue;
      const auto& allowed = parameters[index].allowed;
      const auto type = element_type_of(given.tensor->scalar_type());
      TORCH_CHECK(type && std::find(allowed.begin(), allowed.end(), *type) != allowed.end(), name_, ": expected ",
                  name_of_given(given), " to have dtype ", join_types(allowed), ", but got ",
                  dtype_text(given.tensor->scalar_type()));
      result_.types[index] = *type;
      decided[index] = true;
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      TORCH_CHECK(decided[i], name_, ": no tensor argument decides the type parameter ", parameters[i].name);
    }
  }

  void check_dtypes() const {
    for (const Given& given : given_) {
      const Leaf& leaf = *given.leaf;
      const ElementType expected = element_type(leaf.element, result_.types);
      if (given.tensor->scalar_type() == scalar_type(expected)) continue;
      const int generic = leaf.element.type_parameter;
      TORCH_CHECK(false, name_, ": expected ", name_of_given(given), " to have dtype ", name_of(expected),
                  generic >= 0 ? " like the other arguments of type " + op_.function.type_parameters[generic].name
                               : " (" + leaf.slang_type + ")",
                  ", but got ", dtype_text(given.tensor->scalar_type()),
                  how_to_convert(name_of_given(given), given.tensor->scalar_type(), expected));
    }
  }

  const std::string& name_of_given(const Given& given) const { return name_of_argument(op_, kind_, given.meaning); }

  const Signature& op_;
  const OpKind kind_;
  const std::string& name_;
  c10::SmallVector<Given, 8> given_;
  Arguments result_;
};

template <class Int>
c10::ArrayRef<Int> sizes_of(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return tensor.sizes();
  } else {
    return tensor.sym_sizes();
  }
}

template <class Int>
Sizes<Int> to_sizes(c10::ArrayRef<Int> sizes) {
  return Sizes<Int>(sizes.begin(), sizes.end());
}

template <class Int>
Int integer_of(const c10::IValue& value) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
  } else {
    return value.isBool() ? c10::SymInt(static_cast<int64_t>(value.toBool())) : value.toSymInt();
  }
}

template <class Int>
bool same_sizes(c10::ArrayRef<Int> a, c10::ArrayRef<Int> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if constexpr (std::is_same_v<Int, int64_t>) {
      if (a[i] != b[i]) return false;
    } else {
      if (!a[i].sym_eq(b[i]).expect_true(__FILE__, __LINE__)) return false;
    }
  }
  return true;
}

// A differentiable value arrives as a tensor of exactly its components: 0-dimensional, [3], [rows, columns].
template <class Int>
void check_value_shape(const std::string& name, const Leaf& leaf, const at::Tensor& tensor) {
  Sizes<Int> expected;
  for (const int64_t n : leaf.element.shape) expected.push_back(Int(n));
  const auto got = sizes_of<Int>(tensor);
  TORCH_CHECK(same_sizes<Int>(got, expected), name, ": expected ", leaf.name, " (", leaf.slang_type, ") to ",
              expected.empty() ? std::string("be a 0-dimensional tensor")
                               : c10::str("have shape ", c10::IntArrayRef(leaf.element.shape)),
              ", but got shape ", got);
}

}  // namespace

c10::TensorOptions Arguments::options(const Signature& op, int leaf) const {
  return c10::TensorOptions().dtype(scalar_type(element_type(op.function.leaves[leaf].element, types))).device(device);
}

std::pair<std::vector<ElementType>, c10::Device> types_and_device(const Signature& op, OpKind kind,
                                                                  c10::ArrayRef<c10::IValue> stack) {
  std::vector<ElementType> types(op.function.type_parameters.size());
  c10::Device device = c10::kCPU;
  const auto& meaning = op.signature(kind)->arguments;
  for (size_t i = stack.size(); i-- > 0;) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    const Leaf& leaf = op.function.leaves[meaning[i].leaf];
    if (leaf.element.type_parameter >= 0) {
      if (const auto type = element_type_of(tensor.scalar_type())) types[leaf.element.type_parameter] = *type;
    }
    if (leaf.kind == LeafKind::View) device = tensor.device();
  }
  return {std::move(types), device};
}

Arguments read_arguments(const Signature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  Arguments arguments = Reader(op, kind, stack).take();
  arguments.stack = stack;
  return arguments;
}

template <class Int>
Bound<Int> bind_arguments(const Signature& op, OpKind kind, const Arguments& arguments) {
  const std::string& name = op.qualified_names[static_cast<int>(kind)];
  const auto& leaves = op.function.leaves;
  c10::SmallVector<std::optional<c10::ArrayRef<Int>>, 8> sizes(leaves.size());
  c10::SmallVector<Int, 8> values(leaves.size(), Int(0));
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& tensor = arguments.tensors[i];
    if (tensor.defined() && leaves[i].kind == LeafKind::View) {
      sizes[i] = sizes_of<Int>(tensor);
    } else if (tensor.defined()) {
      check_value_shape<Int>(name, leaves[i], tensor);
    } else if (op.shapes.symbol_of_value(static_cast<int>(i)) >= 0) {
      values[i] = integer_of<Int>(*arguments.numbers[i]);
    }
  }
  Bound<Int> bound = op.shapes.bind<Int>(sizes, values, name);
  for (size_t i = 0; i < arguments.gradients.size(); ++i) {
    const at::Tensor& grad = arguments.gradients[i];
    if (!grad.defined()) continue;
    const at::Tensor& own = arguments.tensors[i];
    const Sizes<Int> expected =
        own.defined() ? to_sizes(sizes_of<Int>(own)) : op.shapes.output_sizes<Int>(static_cast<int>(i), bound);
    TORCH_CHECK(same_sizes<Int>(sizes_of<Int>(grad), expected), name, ": expected ",
                name_of_argument(op, kind, {OpArgument::Role::Gradient, static_cast<int>(i)}), " to have ",
                own.defined() ? "the shape of " + leaves[i].name : "the output's shape", " ",
                c10::ArrayRef<Int>(expected), ", but got ", sizes_of<Int>(grad));
  }
  return bound;
}

template Bound<int64_t> bind_arguments(const Signature&, OpKind, const Arguments&);
template Bound<c10::SymInt> bind_arguments(const Signature&, OpKind, const Arguments&);

}  // namespace torch_slang
