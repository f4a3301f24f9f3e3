// The enumerations of a Program, and their names: as JSON and messages have them, and as Slang spells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace torch_slang {

enum class ElementType : int8_t {
  Float16,
  BFloat16,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Bool
};
inline constexpr int kElementTypeCount = static_cast<int>(ElementType::Bool) + 1;

// Jvp: the forward derivative as a launch has it, tangents beside values. Tangents, TangentsBackward: the function that
// program/tangents.h makes, and its backward, which is a second derivative.
enum class Direction : int8_t { Forward, Backward, Jvp, Tangents, TangentsBackward };

const char* name_of(ElementType type);        // "float32"
const char* slang_name_of(ElementType type);  // "float", "uint8_t", "BFloat16"
const char* name_of(Direction direction);
std::optional<ElementType> element_type_named(std::string_view name);  // "float32"
std::optional<Direction> direction_named(std::string_view name);  // "forward"

int64_t size_of(ElementType type);  // bytes
bool is_floating_point(ElementType type);

}  // namespace torch_slang
