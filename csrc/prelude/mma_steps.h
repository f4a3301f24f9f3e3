// What a block multiplies: a part of a product whose depth is shared out among several, or blocks of a sparse matrix.
#pragma once

#include "prelude/mma_matrix.h"
#include "prelude/views.h"

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

// Blocks of a sparse matrix that are one below the other. Number i, from first() up to end(), is matrix base + places[i] (base + i,
// if `places` is empty) of the view of blocks, and meets the other operand's columns from depths[i] * (its rows) on.
struct BlockList {
  View offsets, depths, places;
  uint line, base;
  TSL_INLINE uint first() const { return uint(offsets.load<int>(line)); }
  TSL_INLINE uint end() const { return uint(offsets.load<int>(line + 1)); }
  TSL_INLINE uint depth(uint i) const { return uint(depths.load<int>(i)); }
  TSL_INLINE uint matrix(uint i) const { return base + (places.size(0) == 0 ? i : uint(places.load<int>(i))); }
};

// The part of `a` that is multiplied with a block: as many columns as the block has rows, fewer at a's end.
template <class T> TSL_INLINE void cut(Matrix<const T>& a, Matrix<const T>& block, uint depth) {
  const uint first = least(depth * block.rows, a.columns), end = least(first + block.rows, a.columns);
  a.data += first * a.column_stride;
  a.columns = block.rows = end - first;
}

}  // namespace tsl
