// The functions of a source that are marked [Differentiable] or [BackwardDifferentiable] and have a body.
#pragma once

#include <string>
#include <vector>

#include "compiler/source/source_tokens.h"

namespace torch_slang {

// Positions of tokens: the attribute's name, and the braces of the body.
struct DifferentiableFunction {
  size_t attribute, open, close;
  bool hides_return;  // a macro of the source that has a `return` is named in the body
};

// In their order. An attribute that a macro brings along is not seen.
std::vector<DifferentiableFunction> differentiable_functions(const std::string& source, const SourceTokens& tokens);
// A `return` stands in the body that is not its last statement.
bool returns_early(const SourceTokens& tokens, const DifferentiableFunction& function);

}  // namespace torch_slang
