#include "compiler/emit/signs.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "compiler/emit/statement_lines.h"
#include "compiler/emit/unset_contexts.h"

namespace torch_slang {
namespace {

bool has(const Code& code, size_t at, std::initializer_list<std::string_view> words) {
  return std::ranges::all_of(words, [&](std::string_view word) { return code[at++] == word; });
}

// Of something empty: `T _S2 = {}`, `T _S2 = T()`, `T _S2 = T{}`.
bool is_cleared_context(const Code& code, size_t at) {
  if (!is_context_of_access(code[at]) || code[at + 2] != "=") return false;
  const size_t value = code[at + 3] == code[at] ? at + 4 : at + 3;
  return has(code, value, {"{", "}"}) || has(code, value, {"(", ")"});
}

// Whether a #line in the function's body names a file of the user's.
bool says_line(const Code& code, const EmittedFunction& function) {
  for (size_t at = function.body.span.begin + 1; at < function.body.span.end; ++at) {
    for (const Token& token : code.before(at)) {
      if (names_users_file(token)) return true;
    }
  }
  return false;
}

}  // namespace

Signs signs_in(const EmittedCode& code) {
  Signs signs;
  for (size_t at = 0; at < code.size(); ++at) {
    const std::string_view word = code[at];
    if (word == "__global__") ++signs.entries;
    if (word.starts_with("WaveGetActiveMask")) signs.masks = 1;
    if (word == "[" && code[at + 1].starts_with("_pc_") && code[at + 2] == "]") signs.kept_iterations = 1;
    if ((word == "sizes" || word == "strides") && code[at - 1] == "." && code[at + 1] == "[") ++signs.sizes;
    if (has(code, at, {"for", "(", ";", ";"}) || has(code, at, {"while", "(", "true"}) || has(code, at, {"do", "{"}))
      ++signs.loops;
    if (is_cleared_context(code, at)) ++signs.cleared_contexts;
  }
  signs.lines = std::ranges::any_of(code.functions(), [&](const EmittedFunction& one) { return says_line(code, one); });
  return signs;
}

}  // namespace torch_slang
