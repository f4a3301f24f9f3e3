#include "compiler/ctext/line_names.h"

#include <string>
#include <string_view>

namespace torch_slang {
namespace {

// The directive with its file's name escaped; as it was if there is nothing to escape.
std::string escaped(std::string_view directive) {
  const size_t first = directive.find('"'), last = directive.rfind('"');
  std::string result;
  for (size_t at = 0; at < directive.size(); ++at) {
    const bool is_special = directive[at] == '"' || directive[at] == '\\';
    if (is_special && at > first && at < last) result += '\\';
    result += directive[at];
  }
  return result;
}

}  // namespace

int escape_line_names(Code& code) {
  int count = 0;
  for (size_t at = 0; at <= code.size(); ++at) {
    for (const Token& token : code.before(at)) {
      if (token.kind != TokenKind::Directive || !token.text.starts_with("#line ")) continue;
      std::string name = escaped(token.text);
      if (name == token.text) continue;
      code.replace_directive(&token - code.tokens().data(), std::move(name));
      ++count;
    }
  }
  return count;
}

}  // namespace torch_slang
