// Tables that have one row for each enumerator, which the row calls `kind`.
#pragma once

#include <cstddef>

namespace torch_slang {

// Whether there is a row for each enumerator up to `last`, in the order of the enumerators: the table may be indexed by them then.
template <class Row, size_t N>
constexpr bool has_each_kind(const Row (&rows)[N], decltype(Row::kind) last) {
  for (size_t i = 0; i < N; ++i) {
    if (static_cast<size_t>(rows[i].kind) != i) return false;
  }
  return N == static_cast<size_t>(last) + 1;
}

}  // namespace torch_slang
