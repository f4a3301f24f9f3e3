#include "compiler/text/code_names.h"

namespace torch_slang {
namespace {

void add(const std::vector<Token>& tokens, NameSet& names) {
  for (const Token& token : tokens) {
    if (token.kind == TokenKind::Identifier) names.emplace(token.text);
    if (token.kind == TokenKind::Directive && !is_line_directive(token.text))
      add_code_names(token.text.substr(1), names);
  }
}

}  // namespace

void add_code_names(std::string_view text, NameSet& names) { add(split_tokens(text), names); }

void add_code_names(const Code& code, NameSet& names) { add(code.tokens(), names); }

}  // namespace torch_slang
