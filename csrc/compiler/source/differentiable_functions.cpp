#include "compiler/source/differentiable_functions.h"

namespace torch_slang {
namespace {

bool is_attribute(const SourceTokens& tokens, size_t at) {
  const bool differentiable = tokens[at] == "Differentiable" || tokens[at] == "BackwardDifferentiable";
  return differentiable && at > 0 && (tokens[at - 1] == "[" || tokens[at - 1] == ",") &&
         (tokens[at + 1] == "]" || tokens[at + 1] == ",");
}

}  // namespace

std::vector<DifferentiableFunction> differentiable_functions(const SourceTokens& tokens) {
  std::vector<DifferentiableFunction> found;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is_attribute(tokens, at)) continue;
    size_t open = at;
    while (open < tokens.size() && tokens[open] != "{" && tokens[open] != ";") {
      open = tokens[open] == "(" ? tokens.closing(open) + 1 : open + 1;
    }
    if (tokens[open] != "{") continue;
    const size_t close = tokens.closing(open);
    if (close < tokens.size()) found.push_back({at, open, close});
  }
  return found;
}

bool returns_early(const SourceTokens& tokens, const DifferentiableFunction& function) {
  const size_t last = tokens.last_statement(function.open);
  for (size_t at = function.open + 1; at < function.close; ++at) {
    if (tokens[at] == "return" && at != last) return true;
  }
  return false;
}

}  // namespace torch_slang
