#include "operators/layout.h"

#include <algorithm>
#include <cstddef>

namespace torch_slang {

Layout::Layout(const Function& function, int dim_count)
    : view_count_(function.view_count), slot_count_(function.slot_count), dim_count_(dim_count) {
  // Arrays in the device's struct have at least one element (see source/source_text.h).
  slots_offset_ = sizeof(TslHeader) + sizeof(TslView) * std::max(view_count_, 1);
  dims_offset_ = slots_offset_ + 8 * static_cast<size_t>(std::max(slot_count_, 1));
  const size_t end = dims_offset_ + 4 * static_cast<size_t>(std::max(dim_count_, 1));
  size_ = (end + 7) / 8 * 8;
  find_pointers(function);
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

}  // namespace torch_slang
