#include "functions/loop_shape.h"

#include <limits>

namespace torch_slang {

LoopShape join_dimensions(c10::IntArrayRef shape, c10::ArrayRef<Strides> strides) {
  constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();
  LoopShape loop;
  loop.strides.resize(strides.size());
  size_t row_start = 0;  // first dimension of `shape` in the row
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = !loop.sizes.empty() && loop.sizes.back() * shape[d] <= kMaxSize;
    for (size_t t = 0; joins && t < strides.size(); ++t) {
      joins = loop.strides[t].back() == strides[t][d] * shape[d];
    }
    if (!joins) {
      loop.sizes.push_back(1);
      for (auto& own : loop.strides) own.push_back(0);
      row_start = d;
    }
    loop.sizes.back() *= shape[d];
    for (size_t t = 0; t < strides.size(); ++t) loop.strides[t].back() = strides[t][d];
  }
  if (loop.sizes.empty()) {
    loop.sizes.push_back(1);
    for (auto& own : loop.strides) own.push_back(0);
  }
  loop.row_dims = shape.size() - row_start;
  return loop;
}

}  // namespace torch_slang
