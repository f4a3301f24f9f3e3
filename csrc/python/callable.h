// Functions of C++ that Python calls without making a tuple and a dictionary of the arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace torch_slang {

class Callable {
 public:
  virtual ~Callable() = default;
  // A new reference, or null with Python's error set; it may throw. `names`: of the arguments after the positional ones; may
  // be null.
  virtual PyObject* call(PyObject* const* given, size_t positional, PyObject* names) = 0;
};

// A function of the type builtin_function_or_method, which the functions of torch.ops have too.
pybind11::object make_function(std::unique_ptr<Callable> callable, std::string name, const std::string& module,
                               std::string doc);

pybind11::str interned(const std::string& text);  // names of arguments are, so that their addresses tell them apart

// The arguments of a call, by place. One object serves many calls, one after the other.
class BoundArguments {
 public:
  explicit BoundArguments(const std::vector<std::string>& names);
  // False: there is no argument of a name, or too many arguments, or two for one place.
  bool bind(PyObject* const* given, size_t positional, PyObject* names);
  size_t size() const { return bound_.size(); }
  PyObject* operator[](size_t place) const { return bound_[place]; }  // borrowed; null: not given

 private:
  size_t place_of(PyObject* name, size_t first) const;

  std::vector<pybind11::str> names_;
  std::vector<PyObject*> bound_;
};

// Runs the operator, whose results are tensors. A new reference: None, a tensor, or a tuple of several.
PyObject* call_operator(const c10::OperatorHandle& op, torch::jit::Stack arguments);

}  // namespace torch_slang
