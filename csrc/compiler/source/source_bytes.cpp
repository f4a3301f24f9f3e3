#include "compiler/source/source_bytes.h"

#include <c10/util/StringUtil.h>

#include <cstdio>

namespace torch_slang {
namespace {

// Bytes of the character that `text` begins with; 0: it begins with none. The second byte's limits depend on the first
// (table 3-7 of the Unicode standard).
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (size == 0 || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return size;
}

}  // namespace

std::optional<std::string> first_wrong_byte(std::string_view text) {
  size_t line = 1, column = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text.substr(at));
    if (size == 0) {
      char byte[8];
      std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
      return c10::str(":", line, ":", column, ": byte ", byte, text[at] == '\0' ? " is no text" : " is not UTF-8");
    }
    const bool ends_line = text[at] == '\n';
    line += ends_line ? 1 : 0;
    column = ends_line ? 1 : column + 1;
    at += size;
  }
  return std::nullopt;
}

}  // namespace torch_slang
