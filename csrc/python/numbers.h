// Python's numbers as arguments of operators, where their meaning is certain.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

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
