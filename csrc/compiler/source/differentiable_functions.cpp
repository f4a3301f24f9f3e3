#include "compiler/source/differentiable_functions.h"

#include "compiler/text/words.h"

namespace torch_slang {
namespace {

bool is_attribute(const SourceCode& tokens, size_t at) {
  const std::string_view next = tokens[at + 1];
  if (!is_among(kDifferentiable, tokens[at])) return false;
  const bool begins = at > 0 && (tokens[at - 1] == "[" || tokens[at - 1] == ",");
  return begins && (next == "]" || next == "," || next == "(");
}

// The end of a local type, or of a function `(x) => { }`, if one begins at `at`: what returns there does not leave the function.
size_t behind_functions_within(const SourceCode& tokens, size_t at) {
  size_t open = at;
  if (tokens[at] == "struct") {
    open = tokens.first_of("{;", at);
  } else if (tokens[at] == "=" && tokens[at + 1] == ">") {
    open = at + 2;
  }
  return open != at && tokens[open] == "{" ? tokens.closing(open) : at;
}

}  // namespace

std::vector<DifferentiableFunction> differentiable_functions(const SourceCode& tokens) {
  std::vector<DifferentiableFunction> found;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is_attribute(tokens, at)) continue;
    const size_t open = tokens.first_of("{;", at);
    if (tokens[open] != "{") continue;
    const size_t close = tokens.closing(open);
    // Two attributes of one function are one function.
    const bool is_new = found.empty() || found.back().open != open;
    if (close < tokens.size() && is_new) found.push_back({at, open, close});
  }
  return found;
}

bool is_marked_differentiable(const SourceCode& tokens, size_t at) {
  for (at = tokens.declaration(at); at < tokens.size(); ++at) {
    if (tokens[at] == ";" || tokens[at] == "{" || tokens[at] == "}") return false;
    if (tokens[at].ends_with("Differentiable")) return true;
  }
  return false;
}

bool returns_early(const SourceCode& tokens, const DifferentiableFunction& function) {
  const size_t last = tokens.last_statement(function.open);
  for (size_t at = function.open + 1; at < function.close; ++at) {
    at = behind_functions_within(tokens, at);
    if (tokens[at] == "return" && at != last) return true;
  }
  return false;
}

}  // namespace torch_slang
