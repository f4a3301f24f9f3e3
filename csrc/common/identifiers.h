// Words in a text of C, Slang or PTX. What a text does is told from whole identifiers, never from a part of one, which may be
// a user's name. In emitted text a user's name always has a number behind it (`gain_0`), which no name of the prelude, of
// CUDA or of C++ has.
#pragma once

#include <cctype>
#include <string_view>

namespace torch_slang {

// May stand in an identifier.
inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether `holds` of one of the text's identifiers (numbers among them).
template <class Holds>
bool any_identifier(std::string_view text, const Holds& holds) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at && holds(text.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}

inline bool mentions_name(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// Of an identifier of emitted text: somebody's own, with the number behind it.
inline bool is_numbered(std::string_view identifier) {
  const size_t last = identifier.find_last_not_of("0123456789");
  return last != std::string_view::npos && last + 1 < identifier.size() && identifier[last] == '_';
}

}  // namespace torch_slang
