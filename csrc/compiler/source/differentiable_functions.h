// The functions of a source that are [Differentiable], or have an attribute of its kin, and have a body.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

inline constexpr std::array<std::string_view, 3> kDifferentiable = {"Differentiable", "BackwardDifferentiable",
                                                                    "ForwardDifferentiable"};

// Positions of tokens: the attribute's name, and the braces of the body.
struct DifferentiableFunction {
  size_t attribute, open, close;
};

// In their order, those that are only differentiable in forward mode too. What macros bring along is there as text: Note [hidden
// control flow] in hidden_flow.h.
std::vector<DifferentiableFunction> differentiable_functions(const SourceCode& code);
// Whether the function whose declaration `at` is in, before its body, has such an attribute.
bool is_declared_differentiable(const SourceCode& code, size_t at);
// A `return` stands in the body that is not its last statement.
bool returns_early(const SourceCode& code, const DifferentiableFunction& function);

}  // namespace torch_slang
