#include "compiler/default_values.h"

#include <charconv>
#include <optional>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

using Kind = slang::TypeReflection::Kind;

bool is_code(const Token& token) {
  return token.kind != TokenKind::Space && token.kind != TokenKind::Comment && token.kind != TokenKind::Directive;
}

std::vector<Token> code_from_line(std::string_view source, int line) {
  size_t begin = 0;
  for (int i = 1; i < line && begin < source.size(); ++i) {
    const size_t end = source.find('\n', begin);
    begin = end == std::string_view::npos ? source.size() : end + 1;
  }
  std::vector<Token> code;
  for (const Token& token : split_tokens(source.substr(begin))) {
    if (is_code(token)) code.push_back(token);
  }
  return code;
}

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

// The token behind the `(` of the declaration `name(` or `name<...>(`.
std::optional<size_t> first_parameter(const std::vector<Token>& code, const std::string& name) {
  for (size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i].kind != TokenKind::Identifier || code[i].text != name) continue;
    size_t next = i + 1;
    int depth = 0;
    while (next < code.size() && (code[next].text == "<" || depth > 0)) {
      depth += code[next].text == "<" ? 1 : code[next].text == ">" ? -1 : 0;
      ++next;
    }
    if (next < code.size() && code[next].text == "(") return next + 1;
  }
  return std::nullopt;
}

// What stands behind the last `.` or `::`.
std::string last_name(const std::string& text) {
  const size_t separator = text.find_last_of(".:");
  return separator == std::string::npos ? "" : text.substr(separator + 1);
}

std::optional<int64_t> case_of(slang::TypeReflection* enumeration, const std::string& text) {
  const std::string name = last_name(text);
  for (unsigned i = 0; i < enumeration->getFieldCount(); ++i) {
    slang::VariableReflection* one = enumeration->getFieldByIndex(i);
    int64_t value = 0;
    if (name == one->getName() && SLANG_SUCCEEDED(one->getDefaultValueInt(&value))) return value;
  }
  return std::nullopt;
}

// "-0.1lf", a literal of double precision.
std::optional<double> double_literal(const std::string& text) {
  const size_t digits_end = text.find_last_of("0123456789.");
  if (digits_end == std::string::npos) return std::nullopt;
  const std::string suffix = text.substr(digits_end + 1);
  if (suffix != "l" && suffix != "L" && suffix != "lf" && suffix != "LF") return std::nullopt;
  double value = 0;
  const char* end = text.data() + digits_end + 1;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

bool is_unsigned(ElementType type) {
  return type == ElementType::UInt8 || type == ElementType::UInt16 || type == ElementType::UInt32 ||
         type == ElementType::UInt64;
}

}  // namespace

std::vector<std::string> default_texts(std::string_view source, int line, const std::string& function) {
  const std::vector<Token> code = code_from_line(source, line);
  const auto first = first_parameter(code, function);
  if (!first) return {};
  std::vector<std::string> texts(1);
  int depth = 0, angles = 0;  // angle brackets are operators behind `=`
  bool behind_equals = false;
  for (size_t i = *first; i < code.size(); ++i) {
    const std::string_view text = code[i].text;
    if (depth == 0 && closes(text)) return texts;
    depth += opens(text) ? 1 : closes(text) ? -1 : 0;
    if (!behind_equals) angles += text == "<" ? 1 : text == ">" ? -1 : 0;
    if (depth == 0 && angles == 0 && text == ",") {
      texts.emplace_back();
      behind_equals = false;
    } else if (depth == 0 && text == "=" && !behind_equals) {
      behind_equals = true;
    } else if (behind_equals) {
      texts.back() += text;
    }
  }
  return {};
}

// Note [defaults by reflection]
//   Of a float that is converted (to half, double) the integer that Slang tells is the number without its fraction: it
//   counts for integers alone. Of a double's own literal it tells no integer, and the number in single precision.
void read_default(slang::VariableReflection* variable, const std::string& text, Leaf& leaf) {
  if (!variable->hasDefaultValue() || !leaf.element.shape.empty()) return;
  slang::TypeReflection* type = variable->getType();
  int64_t whole = 0;
  float number = 0;
  const bool is_whole = SLANG_SUCCEEDED(variable->getDefaultValueInt(&whole));
  const bool is_number = SLANG_SUCCEEDED(variable->getDefaultValueFloat(&number));
  if (type->getKind() == Kind::Enum) {
    leaf.default_int = case_of(type, text);
  } else if (leaf.element.type_parameter >= 0) {
    if (is_whole && (!is_number || static_cast<float>(whole) == number)) {
      leaf.default_int = whole;
    } else if (is_number) {
      leaf.default_float = number;
    }
  } else if (leaf.element.type == ElementType::Bool) {
    if (text == "true" || text == "false") leaf.default_int = text == "true";
  } else if (leaf.element.type == ElementType::Float64 && is_number && !is_whole) {
    leaf.default_float = double_literal(text);
  } else if (is_floating_point(leaf.element.type)) {
    if (is_number) leaf.default_float = number;
  } else if (is_whole && (whole >= 0 || !is_unsigned(leaf.element.type))) {
    leaf.default_int = whole;
  }
}

}  // namespace torch_slang
