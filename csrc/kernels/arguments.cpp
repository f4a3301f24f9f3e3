#include "kernels/arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <type_traits>

#include "operators/element_types.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

// Each type parameter is what the first tensor of its type has.
void resolve_types(const KernelSignature& op, OpKind kind, Arguments& arguments) {
  const auto& parameters = op.function.type_parameters;
  if (parameters.empty()) return;
  const std::string& name = op.qualified(kind);
  c10::SmallVector<bool, 4> decided(parameters.size(), false);
  arguments.types.resize(parameters.size());
  arguments.each_tensor([&](int leaf, const at::Tensor& tensor, OpArgument::Role role) {
    const int index = op.function.leaves[leaf].element.type_parameter;
    if (index < 0 || decided[index]) return;
    const auto& allowed = parameters[index].allowed;
    const auto type = element_type_of(tensor.scalar_type());
    if (!type || std::find(allowed.begin(), allowed.end(), *type) == allowed.end()) {
      throw_wrong_dtype(name, {name_of_argument(op, kind, {role, leaf}), allowed, ""}, tensor.scalar_type());
    }
    arguments.types[index] = *type;
    decided[index] = true;
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    TORCH_CHECK(decided[i], name, ": no tensor argument decides the type parameter ", parameters[i].name);
  }
}

void check_dtypes(const KernelSignature& op, OpKind kind, const Arguments& arguments) {
  arguments.each_tensor([&](int index, const at::Tensor& tensor, OpArgument::Role role) {
    const Leaf& leaf = op.function.leaves[index];
    const ElementType expected = arguments.type_of(leaf);
    if (tensor.scalar_type() == scalar_type(expected)) return;
    const int generic = leaf.element.type_parameter;
    const std::string why = generic >= 0
                                ? " like the other arguments of type " + op.function.type_parameters[generic].name
                                : " (" + leaf.slang_type + ")";
    throw_wrong_dtype(op.qualified(kind), {name_of_argument(op, kind, {role, index}), expected, why},
                      tensor.scalar_type());
  });
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
void check_value_shape(const std::string& name, const Leaf& leaf, c10::ArrayRef<Int> got) {
  Sizes<Int> expected;
  for (const int64_t n : leaf.element.shape) expected.push_back(Int(n));
  TORCH_CHECK(same_sizes<Int>(got, expected), name, ": expected ", leaf.name, " (", leaf.slang_type, ") to ",
              expected.empty() ? std::string("be a 0-dimensional tensor")
                               : c10::str("have shape ", c10::IntArrayRef(leaf.element.shape)),
              ", but got shape ", got);
}

// Of a call under vmap, whose tensors all have them.
void find_samples(const KernelSignature& op, OpKind kind, Arguments& arguments) {
  if (arguments.stack.size() == op.of(kind)->arguments.size()) return;
  const std::string& name = op.qualified(kind);
  const auto count = static_cast<size_t>(arguments.stack.back().toInt());
  arguments.each_tensor([&](int leaf, const at::Tensor& tensor, OpArgument::Role role) {
    const auto sizes = tensor.sym_sizes();
    TORCH_CHECK(sizes.size() >= count, name, ": expected ", name_of_argument(op, kind, {role, leaf}), " to begin with ",
                count, " dimensions of samples, but got shape ", sizes);
    const auto own = sizes.slice(0, count);
    if (arguments.samples.empty()) arguments.samples.assign(own.begin(), own.end());
    TORCH_CHECK(own == c10::SymIntArrayRef(arguments.samples), name, ": expected ",
                name_of_argument(op, kind, {role, leaf}), " to begin with the dimensions of samples ",
                c10::SymIntArrayRef(arguments.samples), " that the other tensors have, but got shape ", sizes);
  });
  TORCH_CHECK(arguments.has_samples(), name, ": expected tensors with dimensions of samples, but got none");
}

}  // namespace

std::pair<std::vector<ElementType>, c10::Device> types_and_device(const KernelSignature& op, OpKind kind,
                                                                  c10::ArrayRef<c10::IValue> stack) {
  std::vector<ElementType> types(op.function.type_parameters.size());
  c10::Device device = c10::kCPU;
  const auto& meaning = op.of(kind)->arguments;
  for (size_t i = stack.size(); i-- > 0;) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    const Leaf& leaf = op.function.leaves[meaning[i].leaf];
    if (leaf.element.type_parameter >= 0) {
      if (const auto type = element_type_of(tensor.scalar_type())) types[leaf.element.type_parameter] = *type;
    }
    if (leaf.is_view()) device = tensor.device();
  }
  return {std::move(types), device};
}

Arguments read_arguments(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  Arguments arguments = read_stack(op, kind, stack);
  find_samples(op, kind, arguments);
  // The device is that of the views; a differentiable scalar may stay on the CPU, as in PyTorch's own ops.
  resolve_device(op, kind, arguments, [&](const Leaf& leaf, const at::Tensor& tensor) {
    return leaf.is_value() && tensor.dim() == static_cast<int64_t>(arguments.samples.size());
  });
  resolve_types(op, kind, arguments);
  check_dtypes(op, kind, arguments);
  return arguments;
}

template <class Int>
Bound<Int> bind_arguments(const KernelSignature& op, OpKind kind, const Arguments& arguments) {
  const std::string& name = op.qualified(kind);
  const auto& leaves = op.function.leaves;
  const auto sizes_of_sample = [&](const at::Tensor& tensor) {
    return sizes_of<Int>(tensor).slice(arguments.samples.size());
  };
  c10::SmallVector<std::optional<c10::ArrayRef<Int>>, 8> sizes(leaves.size());
  c10::SmallVector<Int, 8> values(leaves.size(), Int(0));
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& tensor = arguments.tensors[i];
    if (tensor.defined() && leaves[i].is_view()) {
      sizes[i] = sizes_of_sample(tensor);
    } else if (tensor.defined()) {
      check_value_shape<Int>(name, leaves[i], sizes_of_sample(tensor));
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
        own.defined() ? to_sizes(sizes_of_sample(own)) : op.shapes.output_sizes<Int>(static_cast<int>(i), bound);
    TORCH_CHECK(same_sizes<Int>(sizes_of_sample(grad), expected), name, ": expected ",
                name_of_argument(op, kind, {OpArgument::Role::Gradient, static_cast<int>(i)}), " to have ",
                own.defined() ? "the shape of " + leaves[i].name : "the output's shape", " ",
                c10::ArrayRef<Int>(expected), ", but got ", sizes_of_sample(grad),
                ": pass one of that shape, or a .view() of this one that has it");
  }
  return bound;
}

template Bound<int64_t> bind_arguments(const KernelSignature&, OpKind, const Arguments&);
template Bound<c10::SymInt> bind_arguments(const KernelSignature&, OpKind, const Arguments&);

}  // namespace torch_slang
