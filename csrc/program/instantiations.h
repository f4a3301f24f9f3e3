// Choices of direction and types for which a function gets device text.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// Forward and backward of each kernel and [TorchOp] function, generic ones for float32 (or the first type that they allow).
// A function that is generic over sizes has no usual choice of them, here and below.
std::vector<Instantiation> usual_instantiations(const std::vector<Function>& functions);

// The same of all plain functions; or generic ones for that type, as far as they allow it.
std::vector<Instantiation> plain_instantiations(const std::vector<Function>& functions);
std::vector<Instantiation> plain_instantiations(const std::vector<Function>& functions, ElementType type);

// float32, or the first type that the parameter allows.
ElementType usual_type(const TypeParameter& parameter);

// Of the same functions as the usual ones, for every choice of types that they allow.
std::vector<Instantiation> all_instantiations(const std::vector<Function>& functions);

// Whether a text of this direction has a forward derivative in it, and whether it is a backward.
bool has_forward_derivative(Direction direction);
bool is_backward(Direction direction);

// Whether it computes with bfloat16.
bool has_bfloat16(const Function& function, const Instantiation& instantiation);

// "the backward of sqr for float64"
std::string describe_instantiation(const Instantiation& instantiation);

}  // namespace torch_slang
