#include "source/line_names.h"

#include <algorithm>
#include <string_view>

namespace torch_slang {
namespace {

constexpr std::string_view kDirective = "#line ";

std::string escaped(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string with_escaped_line_names(const std::string& text) {
  std::string result;
  size_t copied = 0;
  for (size_t at = text.find(kDirective); at != std::string::npos; at = text.find(kDirective, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const std::string_view line(text.data() + at, std::min(text.find('\n', at), text.size()) - at);
    const size_t first = line.find('"'), last = line.rfind('"');
    if (first == last) continue;
    const std::string_view name = line.substr(first + 1, last - first - 1);
    if (name.find_first_of("\"\\") == std::string_view::npos) continue;
    result.append(text, copied, at + first + 1 - copied);
    result += escaped(name);
    copied = at + last;
  }
  return copied == 0 ? text : result.append(text, copied);
}

}  // namespace torch_slang
