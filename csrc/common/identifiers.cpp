#include "common/identifiers.h"

#include <cctype>

namespace torch_slang {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool any_identifier(std::string_view text, c10::function_ref<bool(std::string_view)> holds) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at && holds(text.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}

bool mentions_name(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

bool is_numbered(std::string_view identifier) {
  const size_t last = identifier.find_last_not_of("0123456789");
  return last != std::string_view::npos && last + 1 < identifier.size() && identifier[last] == '_';
}

}  // namespace torch_slang
