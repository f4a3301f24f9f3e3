#include "compiler/ctext/line_names.h"

#include <string>
#include <utility>

namespace torch_slang {

int escape_line_names(Code& code) {
  int count = 0;
  for (size_t at = 0; at <= code.size(); ++at) {
    for (const Token& token : code.before(at)) {
      const auto said = read_line_directive(token);
      if (!said || said->file.empty()) continue;
      std::string directive = line_directive(said->line, said->file);
      if (directive == token.text) continue;
      code.replace_directive(&token - code.tokens().data(), std::move(directive));
      ++count;
    }
  }
  return count;
}

}  // namespace torch_slang
