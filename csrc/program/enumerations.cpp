#include "program/enumerations.h"

#include <c10/util/Exception.h>

#include <iterator>

namespace torch_slang {
namespace {

struct ElementFacts {
  const char* name;
  const char* slang_name;
  int64_t size;
  bool floating;
};

constexpr ElementFacts kElements[] = {
    {"float16", "half", 2, true},     {"bfloat16", "BFloat16", 2, true}, {"float32", "float", 4, true},
    {"float64", "double", 8, true},   {"int8", "int8_t", 1, false},      {"int16", "int16_t", 2, false},
    {"int32", "int", 4, false},       {"int64", "int64_t", 8, false},    {"uint8", "uint8_t", 1, false},
    {"uint16", "uint16_t", 2, false}, {"uint32", "uint", 4, false},      {"uint64", "uint64_t", 8, false},
    {"bool", "bool", 1, false},
};
static_assert(std::size(kElements) == static_cast<size_t>(kElementTypeCount));

const ElementFacts& facts_of(ElementType type) {
  const auto index = static_cast<size_t>(type);
  TORCH_INTERNAL_ASSERT(index < std::size(kElements), "element type ", index);
  return kElements[index];
}

constexpr const char* kDirections[] = {"forward", "backward", "jvp", "tangents", "tangents_backward"};

template <class T, size_t N>
const char* name_at(const char* const (&names)[N], T item) {
  const auto index = static_cast<size_t>(item);
  TORCH_INTERNAL_ASSERT(index < N, names[0], " and its kin have no item ", index);
  return names[index];
}

template <class T, size_t N>
std::optional<T> find_name(const char* const (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<T>(i);
  }
  return std::nullopt;
}

}  // namespace

const char* name_of(ElementType type) { return facts_of(type).name; }
const char* slang_name_of(ElementType type) { return facts_of(type).slang_name; }
int64_t size_of(ElementType type) { return facts_of(type).size; }
bool is_floating_point(ElementType type) { return facts_of(type).floating; }

const char* name_of(Direction direction) { return name_at(kDirections, direction); }

std::optional<ElementType> element_type_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kElements); ++i) {
    if (name == kElements[i].name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

std::optional<Direction> direction_named(std::string_view name) { return find_name<Direction>(kDirections, name); }

}  // namespace torch_slang
