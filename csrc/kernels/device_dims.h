// The dims in a kernel's argument block: the symbols of its shapes, and what device code cannot compute from those alone. From
// these, and from constants, device code knows the sizes of views with a static rank, and how many threads there are.
#pragma once

#include <optional>
#include <vector>

#include "kernels/shape_plan.h"
#include "program/program.h"

namespace torch_slang {

class ArgumentBlock;

// A size as device code sees it: a constant or an entry of the block's dims.
struct DeviceDim {
  std::optional<int64_t> constant;
  int dim = -1;
};

class DeviceDims {
 public:
  DeviceDims(const Function& function, const ShapePlan& shapes);

  int count() const { return symbol_count_ + static_cast<int>(computed_.size()); }
  // Of a view with a static rank; else none.
  const std::vector<DeviceDim>& of(int leaf) const { return by_leaf_[leaf]; }
  // How many threads there are along x, y and z; empty if that is in no dim.
  const std::vector<DeviceDim>& of_launch() const { return launch_; }

  // Sizes beyond 32 bits were refused before.
  void write(const Bound<int64_t>& bound, ArgumentBlock& block) const;

 private:
  std::optional<DeviceDim> find(const Expression& expression) const;
  void find_launch(const ShapePlan& shapes);

  int symbol_count_;
  std::vector<Expression> computed_;  // dims that are neither a symbol nor a constant
  std::vector<std::vector<DeviceDim>> by_leaf_;
  std::vector<DeviceDim> launch_;
};

}  // namespace torch_slang
