#include "python/numbers.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "python/tensors.h"

namespace torch_slang {

std::optional<int64_t> integer_of(PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<int64_t> exact_int(PyObject* value) {
  return PyLong_CheckExact(value) ? integer_of(value) : std::nullopt;
}

std::optional<double> exact_float(PyObject* value) {
  if (PyFloat_CheckExact(value)) return PyFloat_AS_DOUBLE(value);
  const auto number = exact_int(value);
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

namespace {

constexpr size_t kMostNumbers = 64;  // remembered for one argument

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double largest_of(c10::ScalarType type) {
  if (type == c10::kHalf) return 65504.0;
  return type == c10::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max() / 2;
}

std::optional<Number> floating(PyObject* value, c10::ScalarType type) {
  constexpr int64_t kExact = int64_t{1} << 53;
  double number = 0;
  if (PyFloat_CheckExact(value)) {
    number = PyFloat_AS_DOUBLE(value);
  } else {
    const auto integer = integer_of(value);
    if (!integer || *integer > kExact || *integer < -kExact) return std::nullopt;
    number = static_cast<double>(*integer);
  }
  if (std::isfinite(number) && std::abs(number) > largest_of(type)) return std::nullopt;
  return Number{bits_of(number), number};
}

bool fits(int64_t value, c10::ScalarType type) {
  const bool is_unsigned = type == c10::kByte || type == c10::kUInt16 || type == c10::kUInt32 || type == c10::kUInt64;
  const int bits = static_cast<int>(c10::elementSize(type)) * 8;
  if (is_unsigned) return value >= 0 && (bits == 64 || value < int64_t{1} << bits);
  return bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1));
}

}  // namespace

std::optional<Number> number_as(PyObject* value, c10::ScalarType type) {
  if (type == c10::kBool) {
    if (!PyBool_Check(value)) return std::nullopt;
    return Number{value == Py_True, value == Py_True};
  }
  if (c10::isFloatingType(type)) return floating(value, type);
  if (!PyLong_Check(value)) return std::nullopt;
  const auto integer = integer_of(value);
  if (!integer || !fits(*integer, type)) return std::nullopt;
  return Number{static_cast<uint64_t>(*integer), *integer};
}

bool is_number(PyObject* value) { return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value); }

at::Tensor NumberTensors::of(PyObject* value, c10::ScalarType type) {
  const auto number = number_as(value, type);
  if (!number) return {};
  const auto known = tensors_.find(number->bits);
  if (known != tensors_.end() && known->second.scalar_type() == type) return known->second;
  if (tensors_.size() >= kMostNumbers) tensors_.clear();
  return tensors_[number->bits] = shared_number(number->scalar, type);
}

}  // namespace torch_slang
