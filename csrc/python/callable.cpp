#include "python/callable.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace torch_slang {
namespace {

// What a function of Python's holds on to.
struct Definition {
  std::unique_ptr<Callable> callable;
  std::string name;
  std::string doc;
  PyMethodDef method;
};

PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t positional, PyObject* names) {
  try {
    const auto* definition = static_cast<Definition*>(PyCapsule_GetPointer(self, nullptr));
    return definition->callable->call(given, static_cast<size_t>(positional), names);
  } catch (...) {
    py::detail::try_translate_exceptions();
    return nullptr;
  }
}

}  // namespace

py::object make_function(std::unique_ptr<Callable> callable, std::string name, const std::string& module,
                         std::string doc) {
  auto definition = std::make_unique<Definition>();
  definition->callable = std::move(callable);
  definition->name = std::move(name);
  definition->doc = std::move(doc);
  definition->method = {definition->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call)),
                        METH_FASTCALL | METH_KEYWORDS, definition->doc.c_str()};
  PyMethodDef* const method = &definition->method;
  const py::capsule self(definition.get(), [](void* held) { delete static_cast<Definition*>(held); });
  static_cast<void>(definition.release());
  PyObject* const function = PyCFunction_NewEx(method, self.ptr(), py::str(module).ptr());
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}

py::str interned(const std::string& text) {
  return py::reinterpret_steal<py::str>(PyUnicode_InternFromString(text.c_str()));
}

BoundArguments::BoundArguments(const std::vector<std::string>& names) : bound_(names.size()) {
  for (const std::string& name : names) names_.push_back(interned(name));
}

bool BoundArguments::bind(PyObject* const* given, size_t positional, PyObject* names) {
  const size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  if (positional + named > bound_.size()) return false;
  std::copy(given, given + positional, bound_.begin());
  std::fill(bound_.begin() + static_cast<std::ptrdiff_t>(positional), bound_.end(), nullptr);
  for (size_t k = 0; k < named; ++k) {
    const size_t place = place_of(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), positional + k);
    if (place >= bound_.size() || bound_[place] != nullptr) return false;
    bound_[place] = given[positional + k];
  }
  return true;
}

// Names are interned, and mostly in order.
size_t BoundArguments::place_of(PyObject* name, size_t first) const {
  if (names_[first].ptr() == name) return first;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].ptr() == name) return i;
  }
  return names_.size();
}

PyObject* call_operator(const c10::OperatorHandle& op, torch::jit::Stack arguments) {
  torch::jit::Stack& stack = arguments;
  {
    const py::gil_scoped_release release;
    op.callBoxed(&stack);
  }
  if (stack.empty()) Py_RETURN_NONE;
  if (stack.size() == 1) return THPVariable_Wrap(std::move(stack[0]).toTensor());
  py::tuple results(stack.size());
  for (size_t i = 0; i < stack.size(); ++i) {
    PyObject* const result = THPVariable_Wrap(std::move(stack[i]).toTensor());
    if (result == nullptr) return nullptr;
    PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), result);
  }
  return results.release().ptr();
}

}  // namespace torch_slang
