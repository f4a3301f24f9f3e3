// The arguments of a kernel's call: dtypes are exactly those declared, shapes those of the shape language.
#pragma once

#include <utility>
#include <vector>

#include "kernels/signature.h"
#include "operators/arguments.h"

namespace torch_slang {

// `stack` must outlive the result.
Arguments read_arguments(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// The types that the tensor arguments decide, one for each type parameter, and their device; nothing is checked.
std::pair<std::vector<ElementType>, c10::Device> types_and_device(const KernelSignature& op, OpKind kind,
                                                                  c10::ArrayRef<c10::IValue> stack);

// Binds the names of the shape language and checks every shape, gradients included.
template <class Int>
Bound<Int> bind_arguments(const KernelSignature& op, OpKind kind, const Arguments& arguments);
extern template Bound<int64_t> bind_arguments(const KernelSignature&, OpKind, const Arguments&);
extern template Bound<c10::SymInt> bind_arguments(const KernelSignature&, OpKind, const Arguments&);

}  // namespace torch_slang
