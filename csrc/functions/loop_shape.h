// The dimensions that a map loop goes through: those of the broadcast shape, joined where every tensor allows it.
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

namespace torch_slang {

using Strides = c10::SmallVector<int64_t, 6>;

struct LoopShape {
  c10::SmallVector<int64_t, 6> sizes;      // outermost first; the last is the row's length. Never empty
  c10::SmallVector<Strides, 8> strides;    // of each tensor, in the units that were given
  size_t row_dims = 0;                     // how many trailing dimensions of the broadcast shape make up a row

  int64_t columns() const { return sizes.back(); }
};

// `strides[t][d]` is tensor t's in dimension d of `shape`, zero where it is broadcast. Joined sizes stay below 2^32.
LoopShape join_dimensions(c10::IntArrayRef shape, c10::ArrayRef<Strides> strides);

}  // namespace torch_slang
