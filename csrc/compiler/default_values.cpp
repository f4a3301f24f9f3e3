#include "compiler/default_values.h"

#include <cmath>
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

// A type parameter may be one of integers, which this number is too.
bool is_whole(const Constant& constant) {
  return constant.kind == Constant::Kind::Whole ||
         (std::trunc(constant.number) == constant.number && std::abs(constant.number) < 1e15);
}

bool is_unsigned(ElementType type) {
  return type == ElementType::UInt8 || type == ElementType::UInt16 || type == ElementType::UInt32 ||
         type == ElementType::UInt64;
}

void take_whole(int64_t value, Leaf& leaf) {
  if (value >= 0 || leaf.element.type_parameter >= 0 || !is_unsigned(leaf.element.type)) leaf.default_int = value;
}

// Note [defaults by reflection]
//   Of a float that is converted (to half, double) the integer that Slang tells is the number without its fraction: it
//   counts for integers alone. Of a double's own literal it tells no integer, and the number in single precision. Of
//   what is computed, and of what is converted to a type parameter, it tells nothing. So it is asked last.
void read_reflected(slang::VariableReflection* variable, bool takes_fractions, Leaf& leaf) {
  int64_t whole = 0;
  float number = 0;
  const bool is_whole = SLANG_SUCCEEDED(variable->getDefaultValueInt(&whole));
  const bool is_number = SLANG_SUCCEEDED(variable->getDefaultValueFloat(&number));
  const bool is_double = leaf.element.type_parameter < 0 && leaf.element.type == ElementType::Float64;
  if (takes_fractions && is_number && (is_whole || !is_double)) {
    leaf.default_float = number;
  } else if (!takes_fractions && is_whole) {
    take_whole(whole, leaf);
  }
}

}  // namespace

void read_default(slang::VariableReflection* variable, const ParameterText& text, Leaf& leaf) {
  if (!variable->hasDefaultValue() || !leaf.element.shape.empty()) return;
  const bool is_generic = leaf.element.type_parameter >= 0;
  const bool takes_fractions = is_generic || is_floating_point(leaf.element.type);
  slang::TypeReflection* type = variable->getType();
  if (type->getKind() == Kind::Enum) {
    leaf.default_int = case_of(type, text.default_value);
  } else if (!is_generic && leaf.element.type == ElementType::Bool) {
    const std::string& word = text.default_value;
    if (word == "true" || word == "false") leaf.default_int = word == "true";
  } else if (!text.constant || (!takes_fractions && text.constant->kind != Constant::Kind::Whole)) {
    read_reflected(variable, takes_fractions, leaf);
  } else if (!takes_fractions || (is_generic && is_whole(*text.constant))) {
    const Constant& constant = *text.constant;
    take_whole(constant.kind == Constant::Kind::Whole ? constant.whole : static_cast<int64_t>(constant.number), leaf);
  } else {
    leaf.default_float = text.constant->number;
  }
}

}  // namespace torch_slang
