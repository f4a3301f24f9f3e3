// The arguments of an elementwise function's call: read from the dispatcher's stack, checked, broadcast. Shared by real calls
// and Meta, so that both refuse the same with the same words.
//
// Note [elementwise types]
//   A leaf of type parameter T: T is PyTorch's result type of all tensors of T-leaves (0-dimensional ones weigh less);
//   integers become the default floating-point type where T has no integers. A leaf of a fixed type takes what promotes to
//   it. Loads convert, so no tensor is copied for its type. Gradients have their tensor's type.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "arguments/results.h"
#include "operator/operator.h"

namespace torch_slang {

struct ElementwiseArguments {
  c10::SmallVector<at::Tensor, 8> tensors;  // by leaf; undefined where there is none
  c10::SmallVector<at::Tensor, 8> gradients;  // by leaf: of the outputs, in a backward
  c10::SmallVector<bool, 4> mask;  // by differentiable argument, in a backward
  std::vector<ElementType> types;  // by type parameter
  std::vector<int64_t> sizes;  // by size parameter
  c10::Device device = c10::kCPU;

  ElementType type_of(const Leaf& leaf) const {
    return leaf.element.type_parameter < 0 ? leaf.element.type : types[leaf.element.type_parameter];
  }
  // Trailing dimensions of the leaf's tensors.
  c10::SmallVector<int64_t, 4> element_shape(const Leaf& leaf) const;
};

ElementwiseArguments read_elementwise(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// What all arguments broadcast to, elements excluded. Output gradients and given outputs must have exactly that.
template <class Int>
using OuterShape = c10::SmallVector<Int, 6>;
template <class Int>
OuterShape<Int> broadcast(const Operator& op, OpKind kind, const ElementwiseArguments& arguments);
extern template OuterShape<int64_t> broadcast(const Operator&, OpKind, const ElementwiseArguments&);
extern template OuterShape<c10::SymInt> broadcast(const Operator&, OpKind, const ElementwiseArguments&);

Results run_elementwise(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);
Results run_elementwise_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

}  // namespace torch_slang
