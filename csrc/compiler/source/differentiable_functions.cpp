#include "compiler/source/differentiable_functions.h"

#include "compiler/text/words.h"

namespace torch_slang {
namespace {

bool is_attribute(const SourceCode& code, size_t at) {
  const std::string_view next = code[at + 1];
  if (!is_among(kDifferentiable, code[at])) return false;
  const bool begins = at > 0 && (code[at - 1] == "[" || code[at - 1] == ",");
  return begins && (next == "]" || next == "," || next == "(");
}

// The end of a local type, or of a function `(x) => { }`, if one begins at `at`: what returns there does not leave the function.
size_t behind_functions_within(const SourceCode& code, size_t at) {
  size_t open = at;
  if (code[at] == "struct") {
    open = code.first_of("{;", at);
  } else if (code[at] == "=" && code[at + 1] == ">") {
    open = at + 2;
  }
  return open != at && code[open] == "{" ? code.closing(open) : at;
}

}  // namespace

std::vector<DifferentiableFunction> differentiable_functions(const SourceCode& code) {
  std::vector<DifferentiableFunction> found;
  for (size_t at = 0; at < code.size(); ++at) {
    if (!is_attribute(code, at)) continue;
    const size_t open = code.first_of("{;", at);
    if (code[open] != "{") continue;
    const size_t close = code.closing(open);
    // Two attributes of one function are one function.
    const bool is_new = found.empty() || found.back().open != open;
    if (close < code.size() && is_new) found.push_back({at, open, close});
  }
  return found;
}

bool is_declared_differentiable(const SourceCode& code, size_t at) {
  for (at = code.declaration(at); at < code.size(); ++at) {
    if (code[at] == ";" || code[at] == "{" || code[at] == "}") return false;
    if (code[at].ends_with("Differentiable")) return true;
  }
  return false;
}

bool returns_early(const SourceCode& code, const DifferentiableFunction& function) {
  const size_t last = code.last_statement(function.open);
  for (size_t at = function.open + 1; at < function.close; ++at) {
    at = behind_functions_within(code, at);
    if (code[at] == "return" && at != last) return true;
  }
  return false;
}

}  // namespace torch_slang
