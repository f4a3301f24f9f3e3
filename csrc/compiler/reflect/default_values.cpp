#include "compiler/reflect/default_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace torch_slang {
namespace {

using Kind = slang::TypeReflection::Kind;

// The part behind the last `.` or `::`.
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

// The number that the whole text is.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// "-0.1lf", a literal of double precision.
std::optional<double> double_literal(const std::string& text) {
  const size_t digits_end = text.find_last_of("0123456789.");
  if (digits_end == std::string::npos) return std::nullopt;
  const std::string suffix = text.substr(digits_end + 1);
  if (suffix != "l" && suffix != "L" && suffix != "lf" && suffix != "LF") return std::nullopt;
  return number_of<double>(std::string_view(text).substr(0, digits_end + 1));
}

// The text between the brackets of `T(...)`, `(T)...` or `__realCast<T>(...)`, behind a sign at most.
std::optional<std::string> converted_to(const std::string& type, const std::string& text) {
  const bool is_negative = text.starts_with("-");
  const std::string sign = is_negative ? "-" : "", value = text.substr(sign.size());
  for (const std::string& call : {type + "(", "__realCast<" + type + ">("}) {
    if (value.starts_with(call) && value.ends_with(")"))
      return sign + value.substr(call.size(), value.size() - call.size() - 1);
  }
  const std::string cast = "(" + type + ")";
  if (!value.starts_with(cast)) return std::nullopt;
  const std::string rest = value.substr(cast.size());
  const bool in_brackets = rest.size() > 2 && rest.front() == '(' && rest.back() == ')';
  return sign + (in_brackets ? rest.substr(1, rest.size() - 2) : rest);
}

// "-3", of decimal digits alone.
std::optional<int64_t> whole_literal(const std::string& text) {
  const size_t digits = text.starts_with("-") ? 1 : 0;
  const bool is_octal = text.size() > digits + 1 && text[digits] == '0';
  if (is_octal) return std::nullopt;
  return number_of<int32_t>(text);  // a larger one is of another type
}

// "-0.5" or "0.5f", of single precision.
std::optional<double> single_literal(std::string text) {
  const bool has_suffix = text.ends_with("f") || text.ends_with("F");
  if (has_suffix) text.pop_back();
  if (!has_suffix && text.find_first_of(".eE") == std::string::npos) return std::nullopt;  // an integer
  const auto value = number_of<float>(text);  // "inf" and "nan" are names in Slang
  return value && std::isfinite(*value) ? std::optional<double>(*value) : std::nullopt;
}

// A literal that becomes the type parameter that the leaf is of: Slang tells nothing of it. (One of double precision it
// rounds to single precision on its way: that is left to the caller.)
void read_converted(const TypeParameter& type, const std::string& text, Leaf& leaf) {
  const auto literal = converted_to(type.name, text);
  if (!literal) return;
  leaf.default_int = whole_literal(*literal);
  const bool may_be_integer = !std::all_of(type.allowed.begin(), type.allowed.end(), is_floating_point);
  if (leaf.default_int || may_be_integer) return;  // which would round it
  leaf.default_float = single_literal(*literal);
}

bool is_unsigned(ElementType type) {
  return type == ElementType::UInt8 || type == ElementType::UInt16 || type == ElementType::UInt32 ||
         type == ElementType::UInt64;
}

}  // namespace

// Note [defaults by reflection]
//   Of a float that is converted (to half, double) the integer that Slang tells is the number without its fraction: it
//   counts for integers alone. Of a double's own literal it tells no integer, and the number in single precision.
void read_default(const Function& function, slang::VariableReflection* variable, const std::string& text, Leaf& leaf) {
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
    } else {
      read_converted(function.type_parameters[leaf.element.type_parameter], text, leaf);
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
