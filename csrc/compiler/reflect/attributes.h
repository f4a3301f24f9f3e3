// Reads the library's attributes from functions and parameters, by Slang's reflection. slang/attributes.slang declares them.
#pragma once

#include <slang.h>

#include <cstdint>
#include <optional>
#include <string>

namespace torch_slang {

// The first attribute with this name on a FunctionReflection or VariableReflection; null if there is none.
template <class Reflection>
slang::Attribute* find_attribute(Reflection* item, const char* name) {
  for (unsigned i = 0; i < item->getUserAttributeCount(); ++i) {
    slang::Attribute* attribute = item->getUserAttributeByIndex(i);
    if (std::string(attribute->getName()) == name) return attribute;
  }
  return nullptr;
}

inline std::string string_argument(slang::Attribute* attribute, unsigned index) {
  size_t length = 0;
  const char* text = attribute->getArgumentValueString(index, &length);
  return text == nullptr ? std::string() : std::string(text, length);
}

inline int64_t int_argument(slang::Attribute* attribute, unsigned index) {
  int value = 0;
  attribute->getArgumentValueInt(index, &value);
  return value;
}

inline double number_argument(slang::Attribute* attribute, unsigned index) {
  float value = 0;
  if (SLANG_SUCCEEDED(attribute->getArgumentValueFloat(index, &value))) return value;
  return static_cast<double>(int_argument(attribute, index));
}

template <class Reflection>
std::optional<std::string> find_string_attribute(Reflection* item, const char* name) {
  slang::Attribute* attribute = find_attribute(item, name);
  return attribute == nullptr ? std::nullopt : std::optional(string_argument(attribute, 0));
}

}  // namespace torch_slang
