// Asks single words.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace torch_slang {

template <size_t N>
bool is_among(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Whether the word has one of these in it: `DiffTensorView` has `TensorView`.
inline bool has_part(std::string_view word, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return word.find(part) != std::string_view::npos; });
}

}  // namespace torch_slang
