#include "compiler/source/tuned_variables.h"

#include <algorithm>

#include "compiler/text/tokens.h"
#include "program/tuned.h"

namespace torch_slang {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

bool has_name(const Pairs& pairs, const std::string& name) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == name; });
}

std::string unquoted(std::string_view text) { return std::string(text.substr(1, text.size() - 2)); }

bool is_macro_name(const std::string& name) {
  const std::vector<Token> tokens = split_tokens(name);
  return tokens.size() == 1 && tokens[0].kind == TokenKind::Identifier;
}

}  // namespace

Pairs tuned_variables(std::string_view source) {
  std::vector<Token> tokens;
  for (const Token& token : split_tokens(source)) {
    if (token.kind != TokenKind::Space && token.kind != TokenKind::Comment) tokens.push_back(token);
  }
  Pairs found;
  const auto is = [&](size_t at, std::string_view text) { return at < tokens.size() && tokens[at].text == text; };
  const auto is_string = [&](size_t at) { return tokens[at].kind == TokenKind::String && tokens[at].text.size() >= 2; };
  for (size_t i = 1; i + 5 < tokens.size(); ++i) {
    if (!is(i, "Tune") || (!is(i - 1, "[") && !is(i - 1, ",")) || !is(i + 1, "(") || !is_string(i + 2) ||
        !is(i + 3, ",") || !is_string(i + 4) || !is(i + 5, ")")) {
      continue;
    }
    const std::string name = unquoted(tokens[i + 2].text);
    const std::vector<std::string> values = split_values(unquoted(tokens[i + 4].text));
    if (is_macro_name(name) && !values.empty() && !has_name(found, name)) found.emplace_back(name, values.front());
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> values_of_tuned(
    std::string_view source, const std::vector<std::pair<std::string, std::string>>& defines) {
  auto variables = tuned_variables(source);
  for (auto& [name, value] : variables) {
    for (const auto& define : defines) {
      if (define.first == name) value = define.second;
    }
  }
  return variables;
}

CompileRequest with_tuned_variables(CompileRequest request, std::string_view source) {
  for (const auto& variable : tuned_variables(source)) {
    if (!has_name(request.defines, variable.first)) request.defines.push_back(variable);
  }
  return request;
}

}  // namespace torch_slang
