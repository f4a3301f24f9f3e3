#include "compiler/source/tuned_variables.h"

#include <algorithm>

#include "compiler/source/source_code.h"
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
  const SourceCode code((std::string(source)));
  const auto is_value = [&](size_t at) { return code.is_string(at) && code[at].size() >= 2; };
  Pairs found;
  for (size_t at = 1; at < code.size(); ++at) {
    if (code[at] != "Tune" || (code[at - 1] != "[" && code[at - 1] != ",") || code[at + 1] != "(" ||
        !is_value(at + 2) || code[at + 3] != "," || !is_value(at + 4) || code[at + 5] != ")") {
      continue;
    }
    const std::string name = unquoted(code[at + 2]);
    const std::vector<std::string> values = split_values(unquoted(code[at + 4]));
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
