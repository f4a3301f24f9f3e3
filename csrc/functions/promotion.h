// The types that a plain function's arguments have together.
//
// Note [elementwise types]
//   A leaf of type parameter T: T is PyTorch's result type of all tensors of T-leaves (0-dimensional ones weigh less);
//   integers become the default floating-point type where T has no integers. A leaf of a fixed type takes what promotes to
//   it. Loads convert, so no tensor is copied for its type. Gradients have their tensor's type.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <optional>

#include "program/program.h"

namespace torch_slang {

// An input's tensor, as promotion sees it.
struct PromotedInput {
  const Leaf& leaf;
  c10::ScalarType type;
  bool has_dimensions;  // beside its elements'; one element alone weighs less
};

// The type that the inputs of a type parameter have together, or that the caller gave; nothing if there is neither. Whether
// the parameter allows it is not looked at.
std::optional<c10::ScalarType> type_of_parameter(const Function& function, int parameter,
                                                 c10::ArrayRef<PromotedInput> inputs);

// Whether every value of one type is one of the other, or rounds to one as in PyTorch's promotion.
bool widens(c10::ScalarType from, c10::ScalarType to);

}  // namespace torch_slang
