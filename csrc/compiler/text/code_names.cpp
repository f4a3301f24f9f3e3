#include "compiler/text/code_names.h"

#include "compiler/text/tokens.h"

namespace torch_slang {

void add_code_names(std::string_view text, NameSet& names) {
  for (const Token& token : split_tokens(text)) {
    if (token.kind == TokenKind::Identifier) names.emplace(token.text);
    if (token.kind == TokenKind::Directive && !is_line_directive(token.text))
      add_code_names(token.text.substr(1), names);
  }
}

}  // namespace torch_slang
