#include "compiler/source/differentiable_functions.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

bool is_attribute(const SourceTokens& tokens, size_t at) {
  const bool differentiable = tokens[at] == "Differentiable" || tokens[at] == "BackwardDifferentiable";
  return differentiable && at > 0 && (tokens[at - 1] == "[" || tokens[at - 1] == ",") &&
         (tokens[at + 1] == "]" || tokens[at + 1] == ",");
}

// With the lines that a `\\` at its end continues.
std::string_view whole_directive(const std::string& source, std::string_view line) {
  const size_t begin = static_cast<size_t>(line.data() - source.data());
  size_t end = source.find('\n', begin);
  while (end != std::string::npos && source[end - 1] == '\\') end = source.find('\n', end + 1);
  return std::string_view(source).substr(begin, end - begin);
}

// The macros whose definition has a `return`.
std::set<std::string_view> returning_macros(const std::string& source) {
  std::set<std::string_view> names;
  for (const Token& token : split_tokens(source)) {
    if (token.kind != TokenKind::Directive) continue;
    std::vector<std::string_view> words;
    for (const Token& part : split_tokens(whole_directive(source, token.text).substr(1))) {
      if (part.kind == TokenKind::Identifier) words.push_back(part.text);
    }
    const bool returns = std::find(words.begin(), words.end(), "return") != words.end();
    if (returns && words[0] == "define") names.insert(words[1]);
  }
  return names;
}

}  // namespace

std::vector<DifferentiableFunction> differentiable_functions(const std::string& source, const SourceTokens& tokens) {
  const std::set<std::string_view> macros = returning_macros(source);
  std::vector<DifferentiableFunction> found;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (!is_attribute(tokens, at)) continue;
    size_t open = at;
    while (open < tokens.size() && tokens[open] != "{" && tokens[open] != ";") {
      open = tokens[open] == "(" ? tokens.closing(open) + 1 : open + 1;
    }
    if (tokens[open] != "{") continue;
    const size_t close = tokens.closing(open);
    if (close >= tokens.size()) continue;
    bool hides_return = false;
    for (size_t word = open; word < close && !hides_return; ++word) hides_return = macros.count(tokens[word]) > 0;
    found.push_back({at, open, close, hides_return});
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
