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

void Layout::find_pointers(const ViewLeaf& view) {
  if (!view.gradient_slots) return;
  pointer_slots_.push_back(*view.gradient_slots + kTslOwners);
  switch (view.gathering().memory) {
    case GradientMemory::Own:
    case GradientMemory::Replicas: break;
    case GradientMemory::Records:
      pointer_slots_.push_back(*view.gradient_slots + kTslValues);
      pointer_slots_.push_back(*view.gradient_slots + kTslIndices);
  }
}

void Layout::find_pointers(const Function& function) {
  for (const Leaf& leaf : function.leaves) {
    leaf.visit([&](const ViewLeaf& one) { find_pointers(one); },
               [&](const ValueLeaf& value) {
                 if (value.pointer_slot) pointer_slots_.push_back(*value.pointer_slot);
                 if (value.gradient_slot) pointer_slots_.push_back(*value.gradient_slot);
               },
               [](const GeneratedLeaf&) {});
  }
  for (int view = 0; view < view_count_; ++view) {
    pointer_offsets_.push_back(view_offset(view) + offsetof(TslView, data));
  }
  for (const int slot : pointer_slots_) pointer_offsets_.push_back(slot_offset(slot));
}

}  // namespace torch_slang
