#include "audit/in_double.h"

#include <algorithm>
#include <cctype>

#include "common/identifiers.h"

namespace torch_slang::audit {
namespace {

bool becomes_double(ElementType type) { return type == ElementType::Float16 || type == ElementType::Float32; }

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "float3" and "make_float3", "__half" and "make___half3", "F32_sin"; other names stay.
std::string renamed(std::string_view word) {
  for (const std::string_view function : {"F32_", "F16_"}) {
    if (word.starts_with(function)) return "F64_" + std::string(word.substr(function.size()));
  }
  const std::string_view make = word.starts_with("make_") ? word.substr(0, 5) : std::string_view();
  const std::string_view type = word.substr(make.size());
  for (const std::string_view narrow : {"float", "__half"}) {
    if (type.starts_with(narrow) && is_digits(type.substr(narrow.size())))
      return std::string(make) + "double" + std::string(type.substr(narrow.size()));
  }
  return std::string(word);
}

// The end of a number that begins at `at`: "1.5e-3f", "0x1Fu".
size_t end_of_number(std::string_view text, size_t at) {
  const bool is_hexadecimal = text.substr(at, 2) == "0x" || text.substr(at, 2) == "0X";
  while (at < text.size() && (is_word(text[at]) || text[at] == '.')) {
    const bool is_exponent = !is_hexadecimal && (text[at] == 'e' || text[at] == 'E');
    ++at;
    if (is_exponent && at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  }
  return at;
}

std::string number_in_double(std::string_view number) {
  const bool is_hexadecimal = number.size() > 1 && (number[1] == 'x' || number[1] == 'X');
  const bool is_float = !is_hexadecimal && (number.back() == 'f' || number.back() == 'F');
  return std::string(is_float ? number.substr(0, number.size() - 1) : number);
}

size_t end_of_text(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

}  // namespace

Function in_double(Function function) {
  for (Leaf& leaf : function.leaves) {
    if (becomes_double(leaf.element.type)) leaf.element.type = ElementType::Float64;
  }
  return function;
}

std::string in_double(std::string_view body) {
  std::string text;
  text.reserve(body.size());
  for (size_t at = 0, end = 0; at < body.size(); at = end) {
    const char c = body[at];
    if (c == '"' || c == '\'') {
      end = end_of_text(body, at);
      text += body.substr(at, end - at);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      end = end_of_number(body, at);
      text += number_in_double(body.substr(at, end - at));
    } else if (is_word(c)) {
      for (end = at; end < body.size() && is_word(body[end]);) ++end;
      text += renamed(body.substr(at, end - at));
    } else {
      end = at + 1;
      text += c;
    }
  }
  return text;
}

}  // namespace torch_slang::audit
