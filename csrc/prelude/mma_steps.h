// What a block multiplies of a product whose depth is shared out among several.
#pragma once

#include "prelude/mma_matrix.h"

namespace tsl {

// Steps of 64 along K, as many as one stage of a fetching block holds: those of one of `parts` blocks.
struct Steps { uint first, end; };
TSL_INLINE Steps steps_of(uint depth, uint part, uint parts) {
  const uint steps = (depth - 1) / 64 + 1, all = depth == 0 ? 0 : steps;
  return {uint(ulonglong(all) * part / parts), uint(ulonglong(all) * (part + 1) / parts)};
}
TSL_INLINE uint least(uint a, uint b) { return a < b ? a : b; }

// The same of the operands themselves.
template <class T> TSL_INLINE void cut(Matrix<const T>& a, Matrix<const T>& b, Steps steps) {
  const uint first = least(steps.first * 64, a.columns), end = least(steps.end * 64, a.columns);
  a.data += first * a.column_stride;
  b.data += first * b.row_stride;
  a.columns = b.rows = end - first;
}

}  // namespace tsl
