// What Python is told of an operator: plain dicts and lists.
#pragma once

#include <pybind11/pybind11.h>

#include "operators/operator.h"

namespace torch_slang {

pybind11::dict describe(const Signature& op);

// Its compiled kernels: KernelFacts as dictionaries.
pybind11::list describe_kernels(const Operator& op);

}  // namespace torch_slang
