// The arguments of an elementwise function's call: dtypes are promoted, shapes broadcast.
//
// Note [elementwise types]
//   A leaf of type parameter T: T is PyTorch's result type of all tensors of T-leaves (0-dimensional ones weigh less);
//   integers become the default floating-point type where T has no integers. A leaf of a fixed type takes what promotes to
//   it. Loads convert, so no tensor is copied for its type. Gradients have their tensor's type.
#pragma once

#include "functions/signature.h"
#include "operators/arguments.h"

namespace torch_slang {

// `stack` must outlive the result.
Arguments read_arguments(const ElementwiseSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// What all arguments broadcast to, elements excluded. Output gradients and given outputs must have exactly that.
template <class Int>
using OuterShape = c10::SmallVector<Int, 6>;
template <class Int>
OuterShape<Int> broadcast(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments);
extern template OuterShape<int64_t> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);
extern template OuterShape<c10::SymInt> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);

}  // namespace torch_slang
