#include "compiler/reflect/parameter_texts.h"

#include <algorithm>

namespace torch_slang {
namespace {

// Behind the `(` of the first declaration `name(` or `name<...>(` from `at` on; the source's end if there is none.
size_t first_parameter(const SourceCode& code, size_t at, const std::string& name) {
  for (; at < code.size(); ++at) {
    if (!code.is_name(at) || code[at] != name) continue;
    const size_t open = code.behind_angles(at + 1);
    if (code[open] == "(") return open + 1;
  }
  return at;
}

}  // namespace

std::vector<ParameterText> parameter_texts(const SourceCode& source, int line, const std::string& function) {
  std::vector<ParameterText> texts(1);
  int depth = 0, angles = 0;  // angle brackets are operators behind `=`
  bool behind_equals = false;
  const size_t first = source.first_from_line(static_cast<size_t>(std::max(line, 1)));
  for (size_t at = first_parameter(source, first, function); at < source.size(); ++at) {
    const std::string_view text = source[at];
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
