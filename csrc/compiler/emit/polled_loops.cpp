#include "compiler/emit/polled_loops.h"

#include <c10/util/StringUtil.h>

#include <string>

namespace torch_slang {
namespace {

// The arguments of the last TSL_AT before the loop, if that is in the same function; else `0, 0`.
std::string place_before(const Code& code, size_t loop) {
  for (size_t at = loop; at-- > 0;) {
    if (code[at] == "TSL_AT") return c10::str(code[at + 2], ", ", code[at + 4]);
    if (code[at] == "__device__") break;
  }
  return "0, 0";
}

}  // namespace

int poll_loops(Code& code) {
  int count = 0;
  for (size_t at = 0; at + 3 < code.size(); ++at) {
    const bool is_for = code[at] == "for" && code[at + 1] == "(" && code[at + 2] == ";";
    const bool is_endless = is_for && code[at + 3] == ";", is_bounded = is_for && code[at + 3] == "TSL_ITERATE";
    const bool is_while = code[at] == "while" && code[at + 1] == "(" && code[at + 2] == "true";
    if (!is_endless && !is_bounded && !is_while) continue;
    code.insert_behind(at + (is_while ? 1 : 2),
                       c10::str("TSL_POLL(", place_before(code, at), is_endless ? ")" : ") && "));
    ++count;
  }
  return count;
}

}  // namespace torch_slang
