// Python's numbers, and lists, as arguments of operators, where their meaning is certain.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Size.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace torch_slang {

// A number of a type: its bits, and the scalar.
struct Number {
  uint64_t bits;
  c10::Scalar scalar;
};

bool is_number(PyObject* value);  // an int, a float or a bool, and of no subclass of these

std::optional<int64_t> integer_of(PyObject* value);  // of an int; nothing where 64 bits do not suffice

std::optional<int64_t> exact_int(
    PyObject* value);  // the value of an int; nothing for other types, bool and other subclasses among them
std::optional<double> exact_float(
    PyObject* value);  // the value of a float or an int; nothing for other types and subclasses

// A list, a tuple or a torch.Size, and of no other subclass, whose items `read` takes; where `count` is given, of so many.
template <class T, class Read>
std::optional<c10::List<T>> list_of(PyObject* value, Read read, std::optional<int64_t> count = {}) {
  if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value) && !THPSize_Check(value)) return std::nullopt;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  if (count && size != *count) return std::nullopt;
  c10::List<T> list;
  list.reserve(static_cast<size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    auto item = read(PySequence_Fast_GET_ITEM(value, i));
    if (!item) return std::nullopt;
    list.push_back(*std::move(item));
  }
  return list;
}

// Nothing where it does not fit, or has to be looked at more closely. `value`: is_number.
std::optional<Number> number_as(PyObject* value, c10::ScalarType type);

// Tensors of one argument's numbers, remembered.
class NumberTensors {
 public:
  // Undefined where number_as gives nothing.
  at::Tensor of(PyObject* value, c10::ScalarType type);

 private:
  std::unordered_map<uint64_t, at::Tensor> tensors_;  // by their numbers' bits
};

}  // namespace torch_slang
