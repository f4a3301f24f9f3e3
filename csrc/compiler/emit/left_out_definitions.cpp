#include "compiler/emit/left_out_definitions.h"

#include <algorithm>

namespace torch_slang {

int leave_out_definitions(Code& code, const std::set<std::string>& names) {
  int count = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != "SLANG_PRELUDE_EXPORT") continue;
    size_t open = at;  // of the parameters; types hold no parentheses
    while (open < code.size() && code[open] != "(") ++open;
    if (names.count(std::string(code[open - 1])) == 0) continue;
    size_t body = open;
    while (body < code.size() && code[body] != "{") ++body;
    code.remove({at, std::min(code.closing(body, code.size()) + 1, code.size())});
    ++count;
  }
  return count;
}

}  // namespace torch_slang
