// The arguments of an elementwise function's call: dtypes are promoted, shapes broadcast.
//
// Note [elementwise types]
//   A leaf of type parameter T: T is PyTorch's result type of all tensors of T-leaves (0-dimensional ones weigh less);
//   integers become the default floating-point type where T has no integers. A leaf of a fixed type takes what promotes to
//   it. Loads convert, so no tensor is copied for its type. Gradients have their tensor's type.
//
// Note [generated arguments]
//   The loop may make an argument of the element's number (torch_slang/generators.py). Module::generating makes an operator
//   for each set of such arguments: their leaves are values, and SymInt[] in the schema, where others are tensors. The list
//   says, in order
//     the device if no tensor does: -1, the host's, or the number of a GPU
//     the rank of the call, and its sizes
//     the kind: 0, a place; 1, a hash; 2, a random number
//     kTslGeneratedWords words for each component, which prelude/map_generated.h explains; they go to the leaf's slots
//   So a transform or a trace sees a list of sizes and numbers, and no tensor.
#pragma once

#include "arguments/arguments.h"
#include "signature/elementwise_signature.h"

namespace torch_slang {

// `stack` must outlive the result.
Arguments read_arguments(const ElementwiseSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// The kind and the words of a generated argument; empty for a tensor.
std::vector<int64_t> generated_words(const Arguments& arguments, size_t leaf);

// What all arguments broadcast to, elements excluded. Output gradients and given outputs must have exactly that.
template <class Int>
using OuterShape = c10::SmallVector<Int, 6>;
template <class Int>
OuterShape<Int> broadcast(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments);
extern template OuterShape<int64_t> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);
extern template OuterShape<c10::SymInt> broadcast(const ElementwiseSignature&, OpKind, const Arguments&);

}  // namespace torch_slang
