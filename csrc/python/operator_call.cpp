#include "python/operator_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/callable.h"
#include "python/errors.h"
#include "python/numbers.h"
#include "python/watched_calls.h"

// Note [operator calls]
//   torch.ops makes the dispatcher's arguments of whatever Python may pass, which takes as long as a small operator. An
//   OperatorCall has read the schema. It calls the operator at once where each argument is a tensor of no class but PyTorch's
//   own, a number, a string, None where the schema allows it, or a flat list of tensors or numbers. All else goes to the
//   callable that torch.ops made, whose results and messages are the same: what watches calls from Python, subclasses of
//   Tensor, missing arguments, wrong types. torch_slang/_library.py puts an OperatorCall in its place.

namespace py = pybind11;

namespace torch_slang {
namespace {

using torch::jit::Stack;

// A reload may register another schema under a name whose handle stays.
class SchemaChanges final : public c10::OpRegistrationListener {
 public:
  static uint64_t so_far() { return count().load(std::memory_order_acquire); }

  static void watch() {
    static auto* const listening = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<SchemaChanges>()));
    static_cast<void>(listening);  // until the process ends
  }

  void onOperatorRegistered(const c10::OperatorHandle&) override { ++count(); }
  void onOperatorDeregistered(const c10::OperatorHandle&) override { ++count(); }

 private:
  static std::atomic<uint64_t>& count() {
    static std::atomic<uint64_t> changes = 0;
    return changes;
  }
};

enum class Accepted { Tensor, Tensors, Int, Ints, Float, Floats, Bool, String };

std::optional<Accepted> accepted_for(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType: return Accepted::Tensor;
    case c10::TypeKind::IntType: return Accepted::Int;
    case c10::TypeKind::FloatType: return Accepted::Float;
    case c10::TypeKind::BoolType: return Accepted::Bool;
    case c10::TypeKind::StringType: return Accepted::String;
    case c10::TypeKind::ListType:
      switch (type.expectRef<c10::ListType>().getElementType()->kind()) {
        case c10::TypeKind::TensorType: return Accepted::Tensors;
        case c10::TypeKind::IntType: return Accepted::Ints;
        case c10::TypeKind::FloatType: return Accepted::Floats;
        default: return std::nullopt;
      }
    default: return std::nullopt;
  }
}

std::optional<at::Tensor> tensor_of(PyObject* value) {
  if (!THPVariable_CheckExact(value)) return std::nullopt;
  return THPVariable_Unpack(value);
}

std::optional<std::string> string_of(PyObject* value) {
  if (!PyUnicode_CheckExact(value)) return std::nullopt;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text != nullptr) return std::string(text, static_cast<size_t>(size));
  PyErr_Clear();  // half a surrogate pair
  return std::nullopt;
}

struct ExpectedArgument {
  Accepted accepted;
  bool may_be_none;
  std::optional<c10::IValue> default_value;

  // Onto the stack; false where torch.ops has to look closer. `value`: null where none is given.
  bool put(PyObject* value, Stack& stack) const {
    if (value == nullptr) {
      if (default_value) stack.push_back(*default_value);
      return default_value.has_value();
    }
    if (value == Py_None) {
      if (may_be_none) stack.emplace_back();
      return may_be_none;
    }
    switch (accepted) {
      case Accepted::Tensor: return push(tensor_of(value), stack);
      case Accepted::Tensors: return push(list_of<at::Tensor>(value, tensor_of), stack);
      case Accepted::Int: return push(exact_int(value), stack);
      case Accepted::Ints: return push(list_of<int64_t>(value, exact_int), stack);
      case Accepted::Float: return push(exact_float(value), stack);
      case Accepted::Floats: return push(list_of<double>(value, exact_float), stack);
      case Accepted::Bool:
        if (PyBool_Check(value)) stack.emplace_back(value == Py_True);
        return PyBool_Check(value);
      case Accepted::String: return push(string_of(value), stack);
    }
    return false;
  }

 private:
  template <class T>
  static bool push(std::optional<T> value, Stack& stack) {
    if (value) stack.emplace_back(*std::move(value));
    return value.has_value();
  }
};

// What is read of a schema.
struct ExpectedArguments {
  std::vector<ExpectedArgument> arguments;
  BoundArguments bound;
  size_t most_positional;

  // Nothing where an argument or a result is of a type that only torch.ops reads.
  static std::optional<ExpectedArguments> of(const c10::FunctionSchema& schema) {
    if (schema.is_vararg() || schema.is_varret()) return std::nullopt;
    for (const c10::Argument& result : schema.returns()) {
      if (result.type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
    }
    std::vector<ExpectedArgument> arguments;
    std::vector<std::string> names;
    size_t most_positional = 0;
    for (const c10::Argument& argument : schema.arguments()) {
      const bool may_be_none = argument.type()->kind() == c10::TypeKind::OptionalType;
      const auto accepted = accepted_for(may_be_none ? *argument.type()->expectRef<c10::OptionalType>().getElementType()
                                                     : *argument.type());
      if (!accepted) return std::nullopt;
      arguments.push_back({*accepted, may_be_none, argument.default_value()});
      names.push_back(argument.name());
      if (!argument.kwarg_only()) ++most_positional;
    }
    return ExpectedArguments{std::move(arguments), BoundArguments(names), most_positional};
  }

  bool read(PyObject* const* given, size_t positional, PyObject* names, Stack& stack) {
    if (positional > most_positional || !bound.bind(given, positional, names)) return false;
    stack.reserve(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].put(bound[i], stack)) return false;
    }
    return true;
  }
};

class OperatorCall final : public Callable {
 public:
  OperatorCall(c10::OperatorHandle handle, py::object general)
      : handle_(std::move(handle)), general_(std::move(general)) {}

  PyObject* call(PyObject* const* given, size_t positional, PyObject* names) override {
    follow_schema();
    Stack stack;
    if (!expected_ || calls_are_watched() || !expected_->read(given, positional, names, stack)) {
      PyObject* const result = PyObject_Vectorcall(general_.ptr(), given, positional, names);
      if (result == nullptr) restore_own_type();
      return result;
    }
    return call_operator(handle_, std::move(stack));
  }

 private:
  void follow_schema() {
    const uint64_t changes = SchemaChanges::so_far();
    if (changes_ == changes) return;
    changes_ = changes;
    expected_ = handle_.hasSchema() ? ExpectedArguments::of(handle_.schema()) : std::nullopt;
  }

  const c10::OperatorHandle handle_;
  const py::object general_;
  std::optional<uint64_t> changes_;  // when expected_ was read
  std::optional<ExpectedArguments> expected_;
};

py::object operator_call(const std::string& name, py::object general) {
  SchemaChanges::watch();
  const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!handle) return general;
  const auto text = [&](const char* attribute) { return py::cast<std::string>(py::str(general.attr(attribute))); };
  const std::string shown = text("__name__"), module = text("__module__");
  std::string doc = text("__doc__");
  return make_function(std::make_unique<OperatorCall>(*handle, std::move(general)), shown, module, std::move(doc));
}

}  // namespace

void bind_operator_call(py::module_& m) { m.def("operator_call", &operator_call, py::arg("name"), py::arg("general")); }

}  // namespace torch_slang
