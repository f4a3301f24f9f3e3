#include "operators/arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "operators/element_types.h"
#include "operators/view_packing.h"
#include "prelude/abi.h"

namespace torch_slang {

std::string dtype_text(c10::ScalarType type) {
  const auto known = element_type_of(type);
  return known ? name_of(*known) : c10::toString(type);
}

void throw_wrong_dtype(const std::string& op, const ExpectedDtype& expected, c10::ScalarType given) {
  const auto is_integer = [](ElementType type) { return !is_floating_point(type) && type != ElementType::Bool; };
  const auto type = element_type_of(given);
  const size_t count = expected.types.size();
  const ElementType first = expected.types.front();
  std::string types, advice;
  for (size_t i = 0; i < count; ++i) {
    types += (i == 0 ? "" : i + 1 == count ? " or " : ", ") + std::string(name_of(expected.types[i]));
  }
  if (count == 1 && type && (expected.converts_floats || (is_integer(*type) && is_integer(first)))) {
    advice = "; convert it before the call, " + expected.argument + ".to(torch." + types + "), if its values fit";
  }
  TORCH_CHECK(false, op, ": expected ", expected.argument, " to have dtype ", types, expected.why, ", but got ",
              dtype_text(given), advice);
}

const std::string& name_of_argument(const Signature& op, OpKind kind, OpArgument meaning) {
  const OpSignature& signature = *op.of(kind);
  size_t at = 0;
  while (signature.arguments[at].role != meaning.role || signature.arguments[at].leaf != meaning.leaf) ++at;
  return signature.schema->arguments()[at].name();
}

ElementType Arguments::type_of(const Leaf& leaf) const { return element_type(leaf.element, types); }

c10::SmallVector<int64_t, 4> Arguments::element_shape(const Leaf& leaf) const {
  c10::SmallVector<int64_t, 4> shape(leaf.element.shape.begin(), leaf.element.shape.end());
  for (int64_t& size : shape) {
    if (size < 0) size = sizes[-1 - size];
  }
  return shape;
}

namespace {

// How many times the memory of the gradient is there.
int64_t times_in_memory(const Leaf& leaf) {
  if (!leaf.is_view()) return 1;
  switch (leaf.view().gathering().memory) {
    case GradientMemory::Own:
    case GradientMemory::Records: break;
    case GradientMemory::Replicas: return leaf.view().copies;
  }
  return 1;
}

}  // namespace

bool Arguments::have_addition_targets(const Function& function, int views) const {
  const int64_t most = int64_t{1} << tsl_element_bits(views);
  bool fit = true;
  each_tensor([&](int leaf, const at::Tensor& tensor, OpArgument::Role) {
    // What lies between the elements of a launch's tensor counts as well.
    const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
    const int64_t numbers = std::max<int64_t>(tensor.numel(), bytes / static_cast<int64_t>(tensor.element_size()));
    const Leaf& gradient = function.leaves[static_cast<size_t>(leaf)];
    fit = fit && numbers < most / times_in_memory(gradient);
  });
  return fit;
}

int64_t Arguments::components(const Leaf& leaf) const { return component_count(leaf.element, sizes); }

c10::TensorOptions Arguments::options(const Leaf& leaf) const {
  return c10::TensorOptions().dtype(scalar_type(type_of(leaf))).device(device);
}

namespace {

class StackReader {
 public:
  StackReader(const Signature& op, OpKind kind) : op_(op), kind_(kind), name_(op.qualified(kind)) {}

  Arguments read(c10::ArrayRef<c10::IValue> stack) {
    const size_t leaves = op_.function.leaves.size();
    result_.stack = stack;
    result_.tensors.resize(leaves);
    result_.numbers.resize(leaves, nullptr);
    if (kind_ != OpKind::Forward) result_.gradients.resize(leaves);
    const auto& arguments = op_.of(kind_)->arguments;
    TORCH_INTERNAL_ASSERT(arguments.size() == stack.size() || arguments.size() + 1 == stack.size());
    for (size_t i = 0; i < arguments.size(); ++i) read_one(arguments[i], stack[i]);
    return std::move(result_);
  }

 private:
  void read_one(const OpArgument& argument, const c10::IValue& value) {
    switch (argument.role) {
      case OpArgument::Role::Leaf: read_leaf(argument.leaf, value); break;
      case OpArgument::Role::Gradient:
        if (value.isTensor()) result_.gradients[argument.leaf] = value.toTensor();
        break;
      case OpArgument::Role::Mask: read_mask(value); break;
      case OpArgument::Role::BlockSize: read_extent(value, "block_size", result_.block_size); break;
      case OpArgument::Role::GridSize: read_extent(value, "grid_size", result_.grid_size); break;
      case OpArgument::Role::SampleDims: break;  // stands behind the arguments of an operator that runs
    }
  }

  void read_leaf(int leaf, const c10::IValue& value) {
    if (value.isTensor()) {
      result_.tensors[leaf] = value.toTensor();
      TORCH_CHECK(result_.tensors[leaf].defined(), name_, ": expected ", op_.function.leaves[leaf].name,
                  " to be a tensor, but got None");
    } else {
      result_.numbers[leaf] = &value;
      check_multiple(op_.function.leaves[leaf], value);
    }
  }

  void check_multiple(const Leaf& leaf, const c10::IValue& value) const {
    if (!leaf.is_value() || leaf.value().multiple_of == 1) return;
    const int64_t factor = leaf.value().multiple_of;
    const auto rule = [&] { return c10::str(name_, ": expected ", leaf.name, " to be a multiple of ", factor); };
    if (value.isSymInt() && !value.toSymInt().maybe_as_int()) {
      const c10::SymInt rest = value.toSymInt() % c10::SymInt(factor);
      TORCH_CHECK(rest.sym_eq(0).expect_true(__FILE__, __LINE__), rule());
      return;
    }
    const int64_t number = value.isSymInt() ? *value.toSymInt().maybe_as_int() : value.toInt();
    TORCH_CHECK(number % factor == 0, rule(), ", but got ", number);
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

  const Signature& op_;
  const OpKind kind_;
  const std::string& name_;
  Arguments result_;
};

}  // namespace

Arguments read_stack(const Signature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  return StackReader(op, kind).read(stack);
}

void resolve_device(const Signature& op, OpKind kind, Arguments& arguments,
                    c10::function_ref<bool(const Leaf&, const at::Tensor&)> may_stay_on_host) {
  const std::string& name = op.qualified(kind);
  OpArgument first{OpArgument::Role::Leaf, -1};
  arguments.each_tensor([&](int leaf, const at::Tensor& tensor, OpArgument::Role role) {
    const OpArgument meaning{role, leaf};
    TORCH_CHECK(tensor.layout() == c10::kStrided, name, ": expected ", name_of_argument(op, kind, meaning),
                " to be a strided tensor, but got ", tensor.layout());
    if (tensor.device().is_cpu() && may_stay_on_host(op.function.leaves[leaf], tensor)) return;
    if (first.leaf < 0) {
      first = meaning;
      arguments.device = tensor.device();
    }
    TORCH_CHECK(tensor.device() == arguments.device, name, ": expected all tensors to be on the same device, but ",
                name_of_argument(op, kind, first), " is on ", arguments.device, " and ",
                name_of_argument(op, kind, meaning), " is on ", tensor.device());
  });
}

}  // namespace torch_slang
