#include "compiler/source/placeholders.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

bool may_hold_one(const std::string& text, const Defines& defines) {
  return std::any_of(defines.begin(), defines.end(),
                     [&](const auto& define) { return text.find("%" + define.first + "%") != std::string::npos; });
}

// `a % b`: what may stand before an operator ends in a name, a number, a string or a closing bracket.
bool ends_operand(const Token& token) {
  constexpr std::array<std::string_view, 5> kKeywords = {"return", "case", "in", "throw", "else"};
  if (token.kind == TokenKind::Identifier) {
    return std::find(kKeywords.begin(), kKeywords.end(), token.text) == kKeywords.end();
  }
  return token.kind == TokenKind::Number || token.kind == TokenKind::String || token.text == ")" || token.text == "]";
}

bool is_percent(const Token& token) { return token.kind == TokenKind::Other && token.text == "%"; }

const std::string* value_of(std::string_view name, const Defines& defines) {
  const auto found =
      std::find_if(defines.begin(), defines.end(), [&](const auto& define) { return define.first == name; });
  return found == defines.end() ? nullptr : &found->second;
}

}  // namespace

std::string fill_placeholders(const std::string& text, const Defines& defines) {
  if (!may_hold_one(text, defines)) return text;
  const std::vector<Token> tokens = split_tokens(text);
  std::string filled;
  bool after_operand = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (!after_operand && is_percent(token) && i + 2 < tokens.size() && is_percent(tokens[i + 2])) {
      if (const std::string* value = value_of(tokens[i + 1].text, defines)) {
        filled += *value;
        i += 2;
        after_operand = true;
        continue;
      }
    }
    filled += token.text;
    if (token.kind != TokenKind::Space && token.kind != TokenKind::Comment) after_operand = ends_operand(token);
  }
  return filled;
}

}  // namespace torch_slang
