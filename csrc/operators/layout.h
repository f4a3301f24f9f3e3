// How the argument block of prelude/abi.h is filled for one kernel or plain function: where each part lies.
#pragma once

#include <string>
#include <vector>

#include "prelude/abi.h"
#include "program/program.h"

namespace torch_slang {

class Layout {
 public:
  // `dim_count`: the block's dims, whose meaning is the kernel's or the loop's own.
  Layout(const Function& function, int dim_count);

  int view_count() const { return view_count_; }
  int slot_count() const { return slot_count_; }
  int dim_count() const { return dim_count_; }
  size_t size() const { return size_; }
  size_t view_offset(int view) const { return sizeof(TslHeader) + sizeof(TslView) * view; }
  size_t slot_offset(int slot) const { return slots_offset_ + 8 * static_cast<size_t>(slot); }
  size_t dim_offset(int dim) const { return dims_offset_ + 4 * static_cast<size_t>(dim); }

  // Slots that hold pointers to what samples have each their own of, and where in the block the pointers of the views and of these
  // slots stand: Note [samples] in backend/samples.h.
  const std::vector<int>& pointer_slots() const { return pointer_slots_; }
  const std::vector<size_t>& pointer_offsets() const { return pointer_offsets_; }

 private:
  void find_pointers(const Function& function);
  void find_pointers(const ViewLeaf& view);

  int view_count_;
  int slot_count_;
  int dim_count_;
  size_t slots_offset_;
  size_t dims_offset_;
  size_t size_;
  std::vector<int> pointer_slots_;
  std::vector<size_t> pointer_offsets_;
};

}  // namespace torch_slang
