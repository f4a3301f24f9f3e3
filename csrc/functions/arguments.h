// The arguments of an elementwise function's call: dtypes are promoted, shapes broadcast.
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
