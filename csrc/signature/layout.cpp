#include "signature/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace torch_slang {

Layout::Layout(const Function& function, const ShapePlan& shapes)
    : view_count_(function.view_count), slot_count_(function.slot_count), symbol_count_(shapes.symbol_count()) {
  device_dims_.resize(function.leaves.size());
  for (size_t leaf = 0; leaf < function.leaves.size(); ++leaf) {
    if (function.leaves[leaf].kind != LeafKind::View || !shapes.has_static_rank(static_cast<int>(leaf))) continue;
    for (const Expression& e : shapes.visible_dims(static_cast<int>(leaf))) {
      std::optional<DeviceDim> dim = find(e);
      if (!dim) {
        computed_.push_back(e);
        dim = find(e);
      }
      device_dims_[leaf].push_back(*dim);
    }
  }
  find_launch_dims(shapes);
  place_parts();
  find_pointers(function);
}

Layout::Layout(const Function& function, int dim_count)
    : view_count_(function.view_count), slot_count_(function.slot_count), symbol_count_(dim_count) {
  place_parts();
}

std::optional<DeviceDim> Layout::find(const Expression& e) const {
  DeviceDim dim;
  if (e.kind == Expression::Kind::Constant) {
    dim.constant = e.constant;
    return dim;
  }
  if (e.kind == Expression::Kind::Symbol) {
    dim.dim = e.symbol;
    return dim;
  }
  const auto found = std::find(computed_.begin(), computed_.end(), e);
  if (found == computed_.end()) return std::nullopt;
  dim.dim = symbol_count_ + static_cast<int>(found - computed_.begin());
  return dim;
}

// Only where views have the same dims: a bound that is no view's size would prove nothing about indices.
void Layout::find_launch_dims(const ShapePlan& shapes) {
  std::vector<Expression> total = shapes.launch_dims();
  if (total.empty()) return;
  total.resize(3, Expression::of_constant(1));
  for (const Expression& e : total) {
    const auto dim = find(e);
    if (!dim) {
      launch_dims_.clear();
      return;
    }
    launch_dims_.push_back(*dim);
  }
}

void Layout::place_parts() {
  // Arrays in the device's struct have at least one element (see source/source_text.h).
  slots_offset_ = sizeof(TslHeader) + sizeof(TslView) * std::max(view_count_, 1);
  dims_offset_ = slots_offset_ + 8 * static_cast<size_t>(std::max(slot_count_, 1));
  const size_t end = dims_offset_ + 4 * static_cast<size_t>(std::max(dim_count(), 1));
  size_ = (end + 7) / 8 * 8;
}

void Layout::find_pointers(const Function& function) {
  for (const Leaf& leaf : function.leaves) {
    if (leaf.pointer_slot >= 0) pointer_slots_.push_back(leaf.pointer_slot);
    if (leaf.gradient_slot >= 0) pointer_slots_.push_back(leaf.gradient_slot);
    if (leaf.gradient_slots < 0) continue;
    pointer_slots_.push_back(leaf.gradient_slots + kTslOwners);
    switch (leaf.gathering().memory) {
      case GradientMemory::Own:
      case GradientMemory::Replicas: break;
      case GradientMemory::Records:
        pointer_slots_.push_back(leaf.gradient_slots + kTslValues);
        pointer_slots_.push_back(leaf.gradient_slots + kTslIndices);
    }
  }
  for (int view = 0; view < view_count_; ++view) {
    pointer_offsets_.push_back(view_offset(view) + offsetof(TslView, data));
  }
  for (const int slot : pointer_slots_) pointer_offsets_.push_back(slot_offset(slot));
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
