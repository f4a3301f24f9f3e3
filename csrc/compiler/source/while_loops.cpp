#include "compiler/source/while_loops.h"

#include <map>
#include <set>
#include <string_view>

#include "compiler/source/source_tokens.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// The `while` of each `do`, by tokens.
std::set<size_t> ends_of_do(const SourceTokens& tokens) {
  std::set<size_t> ends;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == "do" && tokens[at + 1] == "{") ends.insert(tokens.closing(at + 1) + 1);
  }
  return ends;
}

// A `do` without braces: its `while` is not looked for.
bool has_bare_do(const SourceTokens& tokens) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == "do" && tokens[at + 1] != "{") return true;
  }
  return false;
}

// `while (let x = ...)` and `while (int x = ...)` declare a variable.
bool declares(const SourceTokens& tokens, size_t open) { return tokens.is_name(open + 1) && tokens.is_name(open + 2); }

// By place in the source.
struct Before {
  bool operator()(std::string_view a, std::string_view b) const { return a.data() < b.data(); }
};

}  // namespace

std::string with_for_loops(const std::string& source) {
  const SourceTokens tokens(source);
  if (has_bare_do(tokens)) return source;
  std::map<std::string_view, std::string, Before> replacements;
  for (const Token& token : split_tokens(source)) {  // what a macro stands for
    if (token.kind == TokenKind::Directive)
      replacements[token.text] = "#" + with_for_loops(std::string(token.text.substr(1)));
  }
  const std::set<size_t> ends = ends_of_do(tokens);
  for (size_t at = 0; at < tokens.size(); ++at) {
    const size_t open = at + 1, close = tokens.closing(open);
    if (tokens[at] != "while" || tokens[open] != "(" || close >= tokens.size()) continue;
    if (ends.count(at) > 0 || declares(tokens, open)) continue;
    replacements[tokens[at]] = "for";
    replacements[tokens[open]] = "(;";
    replacements[tokens[close]] = ";)";
    if (close == open + 2 && tokens[open + 1] == "true") replacements[tokens[open + 1]] = "";
  }
  std::string result;
  size_t copied = 0;
  for (const auto& [text, by] : replacements) {
    const size_t place = static_cast<size_t>(text.data() - source.data());
    result += source.substr(copied, place - copied) + by;
    copied = place + text.size();
  }
  return result + source.substr(copied);
}

}  // namespace torch_slang
