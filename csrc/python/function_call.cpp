#include "python/function_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <optional>
#include <vector>

#include "module/module.h"
#include "operators/view_packing.h"
#include "python/callable.h"
#include "python/numbers.h"
#include "python/watched_calls.h"

// Note [remembered calls]
//   torch_slang/functions/function.py makes tensors of all that may be passed to a function, which takes longer than the call. A
//   FunctionCall knows what the operator takes, and calls it at once where each argument is a tensor of no class but
//   PyTorch's own, or a number whose type is certain: that of the parameter, or for a type parameter the one floating-point
//   type that its tensors with dimensions have. Tensors of numbers are remembered, by argument. For all else, and where
//   something watches calls from Python, it gives None, and the caller uses the general path, which has the messages too.

namespace py = pybind11;

namespace torch_slang {
namespace {

struct CallArgument {
  std::optional<c10::ScalarType> type;  // none: a type parameter's
  int type_parameter;
  int64_t rank;  // of an element
  bool is_whole;  // no number stands for it
  NumberTensors numbers;
};

std::vector<std::string> names_of_inputs(const Function& function) {
  std::vector<std::string> names;
  for (const Leaf& leaf : function.leaves) {
    if (!leaf.is_output) names.push_back(leaf.name);
  }
  return names;
}

class FunctionCall final : public Callable {
 public:
  FunctionCall(const Signature& op, c10::OperatorHandle handle)
      : handle_(std::move(handle)), bound_(names_of_inputs(op.function)), types_(op.function.type_parameters.size()) {
    for (const Leaf& leaf : op.function.leaves) {
      if (leaf.is_output) continue;
      const bool is_generic = leaf.element.type_parameter >= 0;
      const std::optional<c10::ScalarType> type =
          is_generic ? std::nullopt : std::optional(scalar_type(leaf.element.type));
      arguments_.push_back(
          {type, leaf.element.type_parameter, static_cast<int64_t>(leaf.element.shape.size()), leaf.is_whole(), {}});
    }
  }

  // A new reference: a tensor, or a tuple of them; None where the general path must be used.
  PyObject* call(PyObject* const* given, size_t positional, PyObject* names) override {
    torch::jit::Stack stack;
    if (calls_are_watched() || !bound_.bind(given, positional, names) || !read(stack)) Py_RETURN_NONE;
    return call_operator(handle_, std::move(stack));
  }

 private:
  bool read(torch::jit::Stack& stack) {
    bool any_tensor = false;
    std::fill(types_.begin(), types_.end(), GenericType{});
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (bound_[i] == nullptr) return false;
      if (THPVariable_CheckExact(bound_[i])) {
        any_tensor = true;
        add_type(arguments_[i], THPVariable_Unpack(bound_[i]));
      } else if (!is_number(bound_[i]) || arguments_[i].rank > 0 || arguments_[i].is_whole) {
        return false;
      }
    }
    if (!any_tensor) return false;
    stack.reserve(arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (THPVariable_CheckExact(bound_[i])) {
        stack.emplace_back(THPVariable_Unpack(bound_[i]));
      } else if (const at::Tensor tensor = number(arguments_[i], bound_[i]); tensor.defined()) {
        stack.emplace_back(tensor);
      } else {
        return false;
      }
    }
    return true;
  }

  // What the tensors of a type parameter say that it is.
  struct GenericType {
    std::optional<c10::ScalarType> type;
    bool certain = true;
  };

  void add_type(const CallArgument& argument, const at::Tensor& tensor) {
    if (argument.type_parameter < 0) return;
    GenericType& generic = types_[argument.type_parameter];
    const auto type = tensor.scalar_type();
    const bool agrees =
        tensor.dim() > argument.rank && c10::isFloatingType(type) && generic.type.value_or(type) == type;
    generic.certain = generic.certain && agrees;
    generic.type = type;
  }

  at::Tensor number(CallArgument& argument, PyObject* value) {
    auto type = argument.type;
    if (!type) {
      const GenericType& generic = types_[argument.type_parameter];
      if (!generic.certain || !generic.type) return {};
      type = generic.type;
    }
    return argument.numbers.of(value, *type);
  }

  const c10::OperatorHandle handle_;
  std::vector<CallArgument> arguments_;
  // Of one call, kept for their memory.
  BoundArguments bound_;
  std::vector<GenericType> types_;
};

py::object function_call(const Module& module, const std::string& name) {
  const auto op = module.find(name);
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow((module.ns() + "::" + name).c_str(), "");
  return make_function(std::make_unique<FunctionCall>(op->signature(), handle), name, "torch_slang._C", "");
}

}  // namespace

void bind_function_call(py::module_& m) { m.def("function_call", &function_call, py::arg("module"), py::arg("name")); }

}  // namespace torch_slang
