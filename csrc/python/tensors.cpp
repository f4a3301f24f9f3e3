#include "python/tensors.h"

#include <ATen/ScalarOps.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include "functions/promotion.h"
#include "operators/view_packing.h"
#include "program/enumerations.h"

namespace py = pybind11;

namespace torch_slang {

namespace {

c10::Scalar scalar_of(py::handle value) {
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (number == -1 && PyErr_Occurred()) throw py::error_already_set();
  if (overflow == 0) return static_cast<int64_t>(number);
  return value.cast<uint64_t>();
}

py::object number_tensor(py::handle value, const std::string& dtype) {
  const auto type = element_type_named(dtype);
  TORCH_CHECK(type, "unknown element type '", dtype, "'");
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(shared_number(scalar_of(value), scalar_type(*type))));
}

c10::ScalarType dtype_of(py::handle dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype");
  return reinterpret_cast<const THPDtype*>(dtype.ptr())->scalar_type;
}

// Python's `tensor.grad` warns where a tensor is no leaf and has none.
py::object gradient_of(py::handle tensor) {
  TORCH_CHECK_TYPE(THPVariable_Check(tensor.ptr()), "expected a tensor");
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(THPVariable_Unpack(tensor.ptr()).mutable_grad()));
}

}  // namespace

at::Tensor shared_number(const c10::Scalar& value, c10::ScalarType type) {
  const c10::InferenceMode normal(false);
  return at::detail::scalar_tensor_static(value, type, at::kCPU);
}

void bind_tensors(py::module_& m) {
  m.def("number_tensor", &number_tensor, py::arg("value"), py::arg("dtype"));
  m.def(
      "widens", [](py::handle given, py::handle wanted) { return widens(dtype_of(given), dtype_of(wanted)); },
      py::arg("given"), py::arg("wanted"));
  m.def("gradient_of", &gradient_of, py::arg("tensor"));
}

}  // namespace torch_slang
