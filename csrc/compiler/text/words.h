// Asks single words.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

namespace torch_slang {

inline bool is_among(std::span<const std::string_view> list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// Whether the word has one of these in it: `DiffTensorView` has `TensorView`.
inline bool has_part(std::string_view word, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return word.find(part) != std::string_view::npos; });
}

}  // namespace torch_slang
