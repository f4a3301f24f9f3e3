#include "compiler/default_values.h"

#include <charconv>
#include <optional>

namespace torch_slang {
namespace {

using Kind = slang::TypeReflection::Kind;

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
