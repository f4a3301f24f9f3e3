// Names of the Program's enumerations, the other way round, and as Slang spells them.
#pragma once

#include <optional>
#include <string_view>

#include "program/program.h"

namespace torch_slang {

inline constexpr int kElementTypeCount = static_cast<int>(ElementType::Bool) + 1;

const char* slang_name_of(ElementType type);  // "float", "uint8_t", "BFloat16"
const char* name_of(LeafKind kind);           // "view"
std::optional<ElementType> element_type_named(std::string_view name);  // "float32"
std::optional<Direction> direction_named(std::string_view name);       // "forward"
std::optional<LeafKind> leaf_kind_named(std::string_view name);
std::optional<Accumulation> accumulation_named(std::string_view name);

}  // namespace torch_slang
