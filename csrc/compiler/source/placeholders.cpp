#include "compiler/source/placeholders.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace torch_slang {
namespace {

using Defines = std::vector<std::pair<std::string, std::string>>;

// `a % b`: what may stand before an operator ends in a name, a number, a string or a closing bracket.
bool ends_operand(const SourceCode& code, size_t at) {
  constexpr std::array<std::string_view, 5> kKeywords = {"return", "case", "in", "throw", "else"};
  if (code.is_name(at)) return std::find(kKeywords.begin(), kKeywords.end(), code[at]) == kKeywords.end();
  return code.is_number(at) || code.is_string(at) || code[at] == ")" || code[at] == "]";
}

const std::string* value_of(std::string_view name, const Defines& defines) {
  const auto found =
      std::find_if(defines.begin(), defines.end(), [&](const auto& define) { return define.first == name; });
  return found == defines.end() ? nullptr : &found->second;
}

}  // namespace

void fill_placeholders(SourceCode& code, const Defines& defines) {
  size_t filled = 0;  // behind the last, which is an operand
  for (size_t at = 0; at + 2 < code.size(); ++at) {
    if (code[at] != "%" || code[at + 2] != "%" || !code.is_joined(at) || !code.is_joined(at + 1)) continue;
    const bool is_behind = at > 0 && !code.has_directive({at - 1, at + 1});
    if (is_behind && (at == filled || ends_operand(code, at - 1))) continue;
    if (const std::string* value = value_of(code[at + 1], defines)) {
      code.replace({at, at + 3}, *value);
      filled = at + 3;
      at += 2;
    }
  }
}

}  // namespace torch_slang
