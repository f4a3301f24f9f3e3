// How the argument block of prelude/abi.h is filled for one kernel: where each part lies, and which dims the device code
// of a kernel with known shapes computes its sizes from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "prelude/abi.h"
#include "program/program.h"
#include "signature/shape_plan.h"

namespace torch_slang {

// A dimension of a view with a static rank, as device code sees it: a constant or an entry of the block's dims.
struct DeviceDim {
  std::optional<int64_t> constant;
  int dim = -1;
};

class Layout {
 public:
  Layout(const Function& function, const ShapePlan& shapes);
  // Of an elementwise function, whose dims are not those of the shape language.
  Layout(const Function& function, int dim_count);

  int view_count() const { return view_count_; }
  int slot_count() const { return slot_count_; }
  int dim_count() const { return static_cast<int>(symbol_count_ + computed_.size()); }
  size_t size() const { return size_; }
  size_t view_offset(int view) const { return sizeof(TslHeader) + sizeof(TslView) * view; }
  size_t slot_offset(int slot) const { return slots_offset_ + 8 * static_cast<size_t>(slot); }
  size_t dim_offset(int dim) const { return dims_offset_ + 4 * static_cast<size_t>(dim); }

  // Slots that hold pointers to what samples have each their own of, and where in the block the pointers of the views and of these
  // slots stand: Note [samples] in backend/samples.h.
  const std::vector<int>& pointer_slots() const { return pointer_slots_; }
  const std::vector<size_t>& pointer_offsets() const { return pointer_offsets_; }

  const std::vector<DeviceDim>& device_dims(int leaf) const { return device_dims_[leaf]; }
  // How many threads there are along x, y and z; empty if that is in no dim.
  const std::vector<DeviceDim>& launch_dims() const { return launch_dims_; }

  // Writes the dims of the block. Sizes beyond 32 bits were refused before.
  void write_dims(const Bound<int64_t>& bound, char* block) const;

 private:
  int view_count_;
  int slot_count_;
  int symbol_count_;
  std::vector<Expression> computed_;  // dims that are neither a symbol nor a constant
  std::vector<std::vector<DeviceDim>> device_dims_;
  std::vector<DeviceDim> launch_dims_;
  std::optional<DeviceDim> find(const Expression& expression) const;
  void find_launch_dims(const ShapePlan& shapes);
  void place_parts();
  void find_pointers(const Function& function);

  std::vector<int> pointer_slots_;
  std::vector<size_t> pointer_offsets_;
  size_t slots_offset_;
  size_t dims_offset_;
  size_t size_;
};

}  // namespace torch_slang
