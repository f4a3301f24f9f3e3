#include "compiler/source/own_tangents.h"

#include <string_view>

#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

// A function whose declaration goes on at `at`, behind an attribute: its name is what its parameters follow.
size_t name_of_declared(const SourceTokens& tokens, size_t at) {
  for (; at + 1 < tokens.size(); ++at) {
    if (tokens[at] == "[") {
      at = tokens.closing(at);
    } else if (tokens[at] == "<") {
      while (at + 1 < tokens.size() && tokens[at] != ">") ++at;
    } else if (tokens.is_name(at) && (tokens[at + 1] == "(" ||
                                      (tokens[at + 1] == "<" && tokens[at] != "vector" && tokens[at] != "__generic" &&
                                       tokens[at] != "matrix" && tokens[at] != "DifferentialPair"))) {
      return at;
    }
  }
  return tokens.size();
}

// Whether the function that is declared at `name` has a body that uses a field `diff`.
bool uses_diff(const SourceTokens& tokens, size_t name) {
  size_t at = name + 1;
  while (at < tokens.size() && tokens[at] != "(" && tokens[at] != ";") ++at;
  if (tokens[at] != "(") return false;
  for (at = tokens.closing(at) + 1; at < tokens.size() && tokens[at] != "{" && tokens[at] != ";"; ++at) {
  }
  if (tokens[at] != "{") return false;
  for (const size_t end = tokens.closing(at); at < end; ++at) {
    if (tokens[at] == "diff" && (tokens[at + 1] == "." || tokens[at + 1] == "[")) return true;
  }
  return false;
}

bool is_defined_with_diff(const SourceTokens& tokens, std::string_view derivative) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == derivative && uses_diff(tokens, at)) return true;
  }
  return false;
}

}  // namespace

void add_functions_with_own_tangents(const std::string& text, std::set<std::string>& functions) {
  if (text.find("ForwardDerivative") == std::string::npos) return;
  const SourceTokens tokens(text);
  for (size_t at = 1; at < tokens.size(); ++at) {
    if (tokens[at + 1] != "(") continue;
    const size_t behind = tokens.closing(at + 1) + 1;
    if (tokens[at] == "ForwardDerivative" && is_defined_with_diff(tokens, tokens[behind - 2])) {
      functions.emplace(tokens[name_of_declared(tokens, behind)]);
    } else if (tokens[at] == "ForwardDerivativeOf" && uses_diff(tokens, name_of_declared(tokens, behind))) {
      functions.emplace();
    }
  }
}

}  // namespace torch_slang
