// What Module callables do with tensors and Python cannot do as well.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace torch_slang {

// A tensor of a number on the CPU that any call may share: it belongs to no mode, transform or graph that is active.
at::Tensor shared_number(const c10::Scalar& value, c10::ScalarType type);

void bind_tensors(pybind11::module_& m);

}  // namespace torch_slang
