#include "compiler/source/directives.h"

#include <optional>

namespace torch_slang {
namespace {

// What stands between `<` and the last `>`, or between quotes.
std::optional<Include> include_of(const std::vector<Token>& words) {
  if (words.size() < 2 || words[0].text != "include") return {};
  const std::string_view first = words[1].text, last = words.back().text;
  if (words[1].kind == TokenKind::String) return Include{0, first.substr(1, first.size() - 2), true};
  if (first != "<" || last != ">") return {};
  return Include{0, {first.data() + 1, static_cast<size_t>(last.data() - first.data()) - 1}, false};
}

}  // namespace

std::vector<Token> words_of(const Token& directive) {
  std::vector<Token> words;
  for (const Token& token : split_tokens(directive.text.substr(1))) {
    if (is_code(token)) words.push_back(token);
  }
  return words;
}

std::vector<Include> includes_of(const Code& code) {
  std::vector<Include> found;
  for (size_t token = 0; token < code.tokens().size(); ++token) {
    if (code.tokens()[token].kind != TokenKind::Directive) continue;
    if (const auto include = include_of(words_of(code.tokens()[token])))
      found.push_back({token, include->name, include->in_quotes});
  }
  return found;
}

std::string macro_name(const std::string& define) { return define.substr(0, define.find('(')); }

}  // namespace torch_slang
