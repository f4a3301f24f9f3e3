#include "python/launch_call.h"

#include <ATen/core/List.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dispatch/registry.h"
#include "gradients/derived_calls.h"
#include "module/module.h"
#include "python/callable.h"
#include "python/numbers.h"
#include "python/watched_calls.h"

// Note [remembered launches]
//   torch_slang/kernels/arguments.py takes apart all that may be passed to a launch of a kernel, which takes several times as long as
//   the launch. A LaunchCall knows what the launch takes, and reads the arguments at once where each view is given a tensor of
//   no class but PyTorch's own, alone or with its gradient, each value a number whose type is certain or a flat list of
//   such, and each struct a dictionary or a tuple of its fields. For all else, and where something watches calls, it gives
//   None, and the caller uses the general path, which has the messages too.
//   There are two kinds. `launch` is a call of the operator. `prepare` is for slangtorch's programs, which give block and grid
//   later: there a tensor is its memory, so a launch leaves no trace in the graph nor in a tensor's version.

namespace py = pybind11;

namespace torch_slang {
namespace {

enum class Given { View, TensorNumber, Int, Float, Bool, Ints, Floats, Other };

struct LaunchLeaf {
  size_t place = 0;  // among the operator's arguments
  std::optional<size_t> gradient_place;
  Given given = Given::Other;
  c10::ScalarType type = c10::kFloat;  // of a TensorNumber
  int64_t count = 1;  // of a list
  NumberTensors numbers;
};

struct LaunchParameter {
  py::str name;
  int leaf;
  std::vector<LaunchParameter> fields;
};

LaunchParameter read_parameter(const Parameter& parameter) {
  LaunchParameter result{interned(parameter.name), parameter.leaf, {}};
  for (const Parameter& field : parameter.fields) result.fields.push_back(read_parameter(field));
  return result;
}

Given given_for(const Leaf& leaf, const c10::Type& type) {
  if (leaf.is_view()) return Given::View;
  const bool is_generic = leaf.element.type_parameter >= 0;
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return is_generic || !leaf.element.shape.empty() ? Given::Other : Given::TensorNumber;
    case c10::TypeKind::IntType: return Given::Int;
    case c10::TypeKind::FloatType: return Given::Float;
    case c10::TypeKind::BoolType: return Given::Bool;
    case c10::TypeKind::ListType: {
      const auto kind = type.expectRef<c10::ListType>().getElementType()->kind();
      return kind == c10::TypeKind::IntType     ? Given::Ints
             : kind == c10::TypeKind::FloatType ? Given::Floats
                                                : Given::Other;
    }
    default: return Given::Other;
  }
}

// Not by IValue's own conversion of an optional, which makes None of nothing.
template <class T>
std::optional<c10::IValue> as_argument(std::optional<T> value) {
  return value ? std::optional(c10::IValue(*std::move(value))) : std::nullopt;
}

bool is_broadcast(const at::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) return true;
  }
  return false;
}

// The arguments of a launch but for its block and grid.
class PreparedLaunch {
 public:
  PreparedLaunch(std::shared_ptr<const Operator> op, OpKind kind, torch::jit::Stack stack)
      : op_(std::move(op)), kind_(kind), stack_(std::move(stack)) {}

  // False where the extents are not tuples of three ints. `leaves_trace`: autograd sees it.
  bool launch(py::handle block, py::handle grid, bool leaves_trace) const {
    torch::jit::Stack stack = stack_;
    const auto& arguments = op_->signature().of(kind_)->arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool is_block = arguments[i].role == OpArgument::Role::BlockSize;
      if (!is_block && arguments[i].role != OpArgument::Role::GridSize) continue;
      PyObject* const extent = (is_block ? block : grid).ptr();
      auto sizes =
          PyTuple_Check(extent) && PyTuple_GET_SIZE(extent) == 3 ? std::optional(c10::List<int64_t>()) : std::nullopt;
      for (Py_ssize_t axis = 0; sizes && axis < 3; ++axis) {
        const auto size = exact_int(PyTuple_GET_ITEM(extent, axis));
        if (!size) return false;
        sizes->push_back(*size);
      }
      if (!sizes) return false;
      stack[i] = *std::move(sizes);
    }
    const RegisteredFamily* family = find_family(op_->signature().ns, op_->signature().function.name);
    const py::gil_scoped_release release;
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
    if (!leaves_trace) guard.emplace();
    if (family != nullptr) {
      call_as(*family, *op_, kind_, stack);
    } else {
      op_->run(kind_, std::move(stack));
    }
    return true;
  }

 private:
  std::shared_ptr<const Operator> op_;
  OpKind kind_;
  torch::jit::Stack stack_;
};

class LaunchCall {
 public:
  LaunchCall(const Module& module, const std::string& name, const std::string& kind)
      : op_(module.find(name)), kind_(kind_named(kind)), leaves_(op_->signature().function.leaves.size()) {
    const Function& function = op_->signature().function;
    for (const Parameter& parameter : function.parameters) parameters_.push_back(read_parameter(parameter));
    const OpSignature& signature = *op_->signature().of(kind_);
    for (size_t i = 0; i < signature.arguments.size(); ++i) {
      const auto [role, leaf] = signature.arguments[i];
      if (role == OpArgument::Role::Gradient) leaves_[leaf].gradient_place = i;
      if (role == OpArgument::Role::BlockSize) block_name_ = interned(signature.schema->arguments()[i].name());
      if (role == OpArgument::Role::GridSize) grid_name_ = interned(signature.schema->arguments()[i].name());
      if (role != OpArgument::Role::Leaf) continue;
      LaunchLeaf& self = leaves_[leaf];
      self.place = i;
      self.given = given_for(function.leaves[leaf], *signature.schema->arguments()[i].type());
      self.type = scalar_type(function.leaves[leaf].element.type);
      self.count = component_count(function.leaves[leaf].element);
    }
  }

  // The kernel's own arguments; None where the general path must be used.
  std::optional<PreparedLaunch> prepare(const py::tuple& args, const py::dict& kwargs) {
    if (args.size() + kwargs.size() != parameters_.size()) return std::nullopt;
    is_memory_ = true;
    auto prepared = read_all(args, kwargs);
    return prepared && reaches_a_device(keys_) ? std::move(prepared) : std::nullopt;
  }

  // Those of the operator; false where the general path must be used.
  bool launch(const py::tuple& args, const py::dict& kwargs) {
    if (args.size() + kwargs.size() != parameters_.size() + 2) return false;
    is_memory_ = false;
    PyObject* const block = argument(args, kwargs, parameters_.size(), block_name_);
    PyObject* const grid = argument(args, kwargs, parameters_.size() + 1, grid_name_);
    if (block == nullptr || grid == nullptr) return false;
    const auto prepared = read_all(args, kwargs);
    return prepared && prepared->launch(block, grid, /*leaves_trace=*/true);
  }

 private:
  // Null if it is not there.
  static PyObject* argument(const py::tuple& args, const py::dict& kwargs, size_t place, const py::str& name) {
    if (place < args.size()) return PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(place));
    return PyDict_GetItemWithError(kwargs.ptr(), name.ptr());
  }

  std::optional<PreparedLaunch> read_all(const py::tuple& args, const py::dict& kwargs) {
    if (calls_are_watched()) return std::nullopt;
    torch::jit::Stack stack(op_->signature().of(kind_)->arguments.size());
    keys_ = {};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      PyObject* const value = argument(args, kwargs, i, parameters_[i].name);
      if (value == nullptr || !read(parameters_[i], value, stack)) return std::nullopt;
    }
    return PreparedLaunch(op_, kind_, std::move(stack));
  }

  bool read(const LaunchParameter& parameter, PyObject* value, torch::jit::Stack& stack) {
    if (parameter.leaf >= 0) return read(leaves_[parameter.leaf], value, stack);
    const auto count = static_cast<Py_ssize_t>(parameter.fields.size());
    const bool is_dict = PyDict_CheckExact(value) && PyDict_GET_SIZE(value) == count;
    if (!is_dict && !is_tuple_of(parameter, value)) return false;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const LaunchParameter& field = parameter.fields[i];
      PyObject* const item = is_dict ? PyDict_GetItemWithError(value, field.name.ptr()) : PyTuple_GET_ITEM(value, i);
      if (item == nullptr || !read(field, item, stack)) return false;
    }
    return true;
  }

  // A tuple, or a named tuple whose names are the fields' in this order.
  static bool is_tuple_of(const LaunchParameter& parameter, PyObject* value) {
    if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != static_cast<Py_ssize_t>(parameter.fields.size()))
      return false;
    if (PyTuple_CheckExact(value)) return true;
    const auto names = py::reinterpret_steal<py::object>(PyObject_GetAttrString(value, "_fields"));
    if (!names) {
      PyErr_Clear();
      return false;
    }
    if (!PyTuple_CheckExact(names.ptr()) || PyTuple_GET_SIZE(names.ptr()) != PyTuple_GET_SIZE(value)) return false;
    for (size_t i = 0; i < parameter.fields.size(); ++i) {
      if (PyTuple_GET_ITEM(names.ptr(), static_cast<Py_ssize_t>(i)) != parameter.fields[i].name.ptr()) return false;
    }
    return true;
  }

  bool read(LaunchLeaf& leaf, PyObject* value, torch::jit::Stack& stack) {
    std::optional<c10::IValue> argument;
    switch (leaf.given) {
      case Given::View: return read_view(leaf, value, stack);
      case Given::TensorNumber:
        if (is_number(value)) argument = leaf.numbers.of(value, leaf.type);
        if (argument && !argument->toTensor().defined()) argument.reset();
        break;
      case Given::Int: argument = as_argument(exact_int(value)); break;
      case Given::Float: argument = as_argument(exact_float(value)); break;
      case Given::Bool:
        if (PyBool_Check(value)) argument = value == Py_True;
        break;
      case Given::Ints: argument = as_argument(list_of<int64_t>(value, exact_int, leaf.count)); break;
      case Given::Floats: argument = as_argument(list_of<double>(value, exact_float, leaf.count)); break;
      case Given::Other: break;
    }
    if (!argument) return false;
    stack[leaf.place] = *std::move(argument);
    return true;
  }

  // A tensor, (tensor, gradient) or (tensor, (gradient,)); a gradient may be None.
  bool read_view(const LaunchLeaf& leaf, PyObject* value, torch::jit::Stack& stack) {
    if (THPVariable_CheckExact(value)) return put_memory(value, stack[leaf.place]);
    if (!leaf.gradient_place || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) return false;
    PyObject* gradient = PyTuple_GET_ITEM(value, 1);
    if (PyTuple_CheckExact(gradient) && PyTuple_GET_SIZE(gradient) == 1) gradient = PyTuple_GET_ITEM(gradient, 0);
    if (!put_memory(PyTuple_GET_ITEM(value, 0), stack[leaf.place])) return false;
    if (gradient == Py_None) return true;
    c10::IValue& place = stack[*leaf.gradient_place];
    if (!put_memory(gradient, place)) return false;
    // Of another type, the kernel gets a copy; of another shape perhaps a part.
    const at::Tensor &own = stack[leaf.place].toTensor(), &given = place.toTensor();
    return given.scalar_type() == own.scalar_type() && given.sizes() == own.sizes();
  }

  bool put_memory(PyObject* value, c10::IValue& place) {
    if (!THPVariable_CheckExact(value)) return false;
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (is_broadcast(tensor)) return false;
    keys_ = keys_ | tensor.key_set();
    if (tensor.dim() == 0 && !is_memory_) return false;
    place = tensor.dim() > 0 ? tensor : tensor.variable_data().view({1});
    return true;
  }

  std::shared_ptr<const Operator> op_;
  OpKind kind_;
  std::vector<LaunchParameter> parameters_;
  std::vector<LaunchLeaf> leaves_;
  py::str block_name_, grid_name_;
  // Of one call.
  bool is_memory_ = false;
  c10::DispatchKeySet keys_;  // its tensors'
};

}  // namespace

void bind_launch_call(py::module_& m) {
  py::class_<PreparedLaunch>(m, "PreparedLaunch")
      .def("launch", &PreparedLaunch::launch, py::arg("block_size"), py::arg("grid_size"),
           py::arg("leaves_trace") = false);
  py::class_<LaunchCall>(m, "LaunchCall")
      .def(py::init<const Module&, const std::string&, const std::string&>(), py::arg("module"), py::arg("name"),
           py::arg("kind"))
      .def("launch", &LaunchCall::launch, py::arg("args"), py::arg("kwargs"))
      .def("prepare", &LaunchCall::prepare, py::arg("args"), py::arg("kwargs"));
}

}  // namespace torch_slang
