#include "op/layout.h"

#include <algorithm>
#include <cstring>

namespace torch_slang {

Layout::Layout(const Function& function, const ShapePlan& shapes)
    : view_count_(function.view_count), slot_count_(function.slot_count), symbol_count_(shapes.symbol_count()) {
  device_dims_.resize(function.leaves.size());
  for (size_t leaf = 0; leaf < function.leaves.size(); ++leaf) {
    if (function.leaves[leaf].kind != LeafKind::View || !shapes.has_static_rank(static_cast<int>(leaf))) continue;
    for (const Expression& e : shapes.visible_dims(static_cast<int>(leaf))) {
      DeviceDim dim;
      if (e.kind == Expression::Kind::Constant) {
        dim.constant = e.constant;
      } else if (e.kind == Expression::Kind::Symbol) {
        dim.dim = e.symbol;
      } else {
        size_t i = 0;
        while (i < computed_.size() && !(computed_[i] == e)) ++i;
        if (i == computed_.size()) computed_.push_back(e);
        dim.dim = symbol_count_ + static_cast<int>(i);
      }
      device_dims_[leaf].push_back(dim);
    }
  }
  place_parts();
}

Layout::Layout(const Function& function, int dim_count)
    : view_count_(function.view_count), slot_count_(function.slot_count), symbol_count_(dim_count) {
  place_parts();
}

void Layout::place_parts() {
  // Arrays in the device's struct have at least one element (see backend/source.h).
  slots_offset_ = sizeof(TslHeader) + sizeof(TslView) * std::max(view_count_, 1);
  dims_offset_ = slots_offset_ + 8 * static_cast<size_t>(std::max(slot_count_, 1));
  const size_t end = dims_offset_ + 4 * static_cast<size_t>(std::max(dim_count(), 1));
  size_ = (end + 7) / 8 * 8;
}

void Layout::write_dims(const Bound<int64_t>& bound, char* block) const {
  auto* dims = block + dims_offset_;
  const auto write = [&](int index, int64_t value) {
    const auto narrow = static_cast<uint32_t>(value);
    std::memcpy(dims + 4 * static_cast<size_t>(index), &narrow, 4);
  };
  for (int i = 0; i < symbol_count_; ++i) write(i, bound.symbols[i]);
  for (size_t i = 0; i < computed_.size(); ++i) {
    write(symbol_count_ + static_cast<int>(i), evaluate<int64_t>(computed_[i], bound.symbols));
  }
}

}  // namespace torch_slang
