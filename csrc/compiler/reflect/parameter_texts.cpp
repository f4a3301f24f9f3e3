#include "compiler/reflect/parameter_texts.h"

#include <optional>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

std::vector<Token> code_from_line(std::string_view source, int line) {
  size_t begin = 0;
  for (int i = 1; i < line && begin < source.size(); ++i) {
    const size_t end = source.find('\n', begin);
    begin = end == std::string_view::npos ? source.size() : end + 1;
  }
  std::vector<Token> code;
  for (const Token& token : split_tokens(source.substr(begin))) {
    if (is_code(token)) code.push_back(token);
  }
  return code;
}

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

// The token behind the `(` of the declaration `name(` or `name<...>(`.
std::optional<size_t> first_parameter(const std::vector<Token>& code, const std::string& name) {
  for (size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i].kind != TokenKind::Identifier || code[i].text != name) continue;
    size_t next = i + 1;
    int depth = 0;
    while (next < code.size() && (code[next].text == "<" || depth > 0)) {
      depth += code[next].text == "<" ? 1 : code[next].text == ">" ? -1 : 0;
      ++next;
    }
    if (next < code.size() && code[next].text == "(") return next + 1;
  }
  return std::nullopt;
}

}  // namespace

std::vector<ParameterText> parameter_texts(std::string_view source, int line, const std::string& function) {
  const std::vector<Token> code = code_from_line(source, line);
  const auto first = first_parameter(code, function);
  if (!first) return {};
  std::vector<ParameterText> texts(1);
  int depth = 0, angles = 0;  // angle brackets are operators behind `=`
  bool behind_equals = false;
  for (size_t i = *first; i < code.size(); ++i) {
    const std::string_view text = code[i].text;
    if (depth == 0 && closes(text)) return texts;
    depth += opens(text) ? 1 : closes(text) ? -1 : 0;
    if (!behind_equals) angles += text == "<" ? 1 : text == ">" ? -1 : 0;
    if (depth == 0 && angles == 0 && text == ",") {
      texts.emplace_back();
      behind_equals = false;
    } else if (depth == 0 && text == "=" && !behind_equals) {
      behind_equals = true;
    } else if (behind_equals) {
      texts.back().default_value += text;
    } else if (text == "no_diff") {
      texts.back().no_diff = true;
    }
  }
  return {};
}

}  // namespace torch_slang
