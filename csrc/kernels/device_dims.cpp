#include "kernels/device_dims.h"

#include <algorithm>

#include "operators/argument_block.h"

namespace torch_slang {

DeviceDims::DeviceDims(const Function& function, const ShapePlan& shapes) : symbol_count_(shapes.symbol_count()) {
  by_leaf_.resize(function.leaves.size());
  for (size_t leaf = 0; leaf < function.leaves.size(); ++leaf) {
    if (!function.leaves[leaf].is_view() || !shapes.has_static_rank(static_cast<int>(leaf))) continue;
    for (const Expression& e : shapes.visible_dims(static_cast<int>(leaf))) {
      std::optional<DeviceDim> dim = find(e);
      if (!dim) {
        computed_.push_back(e);
        dim = find(e);
      }
      by_leaf_[leaf].push_back(*dim);
    }
  }
  find_launch(shapes);
}

std::optional<DeviceDim> DeviceDims::find(const Expression& e) const {
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
void DeviceDims::find_launch(const ShapePlan& shapes) {
  std::vector<Expression> total = shapes.launch_dims();
  if (total.empty()) return;
  total.resize(3, Expression::of_constant(1));
  for (const Expression& e : total) {
    const auto dim = find(e);
    if (!dim) {
      launch_.clear();
      return;
    }
    launch_.push_back(*dim);
  }
}

void DeviceDims::write(const Bound<int64_t>& bound, ArgumentBlock& block) const {
  for (int i = 0; i < symbol_count_; ++i) block.set_dim(i, static_cast<uint32_t>(bound.symbols[i]));
  for (int i = symbol_count_; i < count(); ++i) {
    const auto size = evaluate<int64_t>(computed_[i - symbol_count_], bound.symbols);
    block.set_dim(i, static_cast<uint32_t>(size));
  }
}

}  // namespace torch_slang
