#include "kernels/value_gradients.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/split_with_sizes_copy.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "backend/launch_shape.h"
#include "gradients/gathered_gradient.h"
#include "kernels/sample_memory.h"
#include "prelude/abi.h"

namespace torch_slang {

namespace {

// More memory than this for the parts of one value's gradient, and neighbours share it.
constexpr uint64_t kMostBytesOfParts = uint64_t{64} << 20;

// Those that have a part each in the gradient of a value: Note [value gradients] in abi.h.
uint64_t adders_in(const LaunchShape& shape, c10::Device device) {
  const uint64_t blocks = shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  return device.is_cpu() ? blocks : blocks * ((threads_in_block(shape) + kWave - 1) / kWave);
}

// The first dimension's slices, in memory of their own: an operator's results may not share any.
std::vector<at::Tensor> taken_apart(const at::Tensor& sums) {
  if (sums.size(0) == 1) return {sums.contiguous()};
  const std::vector<int64_t> ones(sums.size(0), 1);
  std::vector<at::Tensor> slices;
  auto sizes = sums.sizes().vec();
  sizes[0] = 1;
  for (size_t i = 0; i < ones.size(); ++i) slices.push_back(at::empty(sizes, sums.options()));
  at::split_with_sizes_copy_out(slices, sums, ones);
  return slices;
}

}  // namespace

ValueGradients::Group& ValueGradients::group_of(const Leaf& leaf) {
  const at::ScalarType type = arguments_.device.is_cpu()
                                  ? at::kDouble
                                  : summing_options(arguments_.type_of(leaf), arguments_.device).dtype().toScalarType();
  const int64_t components = component_count(leaf.element);
  const auto is_same = [&](const Group& group) { return group.type == type && group.components == components; };
  const auto found = std::find_if(groups_.begin(), groups_.end(), is_same);
  return found != groups_.end() ? *found : groups_.emplace_back(Group{type, components, {}, {}});
}

void ValueGradients::prepare(const std::vector<const Leaf*>& leaves, const LaunchShape& shape, LaunchMemory& memory) {
  leaves_ = leaves;
  groups_.clear();
  for (size_t i = 0; i < leaves.size(); ++i) group_of(*leaves[i]).members.push_back(i);
  for (Group& group : groups_) make_parts(group, adders_in(shape, arguments_.device), memory);
}

void ValueGradients::make_parts(Group& group, uint64_t adders, LaunchMemory& memory) {
  const auto options = at::TensorOptions().dtype(group.type).device(arguments_.device);
  const auto members = static_cast<int64_t>(group.members.size());
  const int64_t samples = sample_count(arguments_), components = group.components;
  const uint64_t bytes = samples * components * options.dtype().itemsize();
  uint64_t places = adders;
  uint64_t sharing = 0;
  while (!is_deterministic() && sharing < kTslMostSharing && places * bytes > kMostBytesOfParts) {
    ++sharing;
    places = ((adders - 1) >> sharing) + 1;
  }
  const auto count = static_cast<int64_t>(places);
  // The parts of each value, and of each sample, begin at an address whose low bits are zero, as new memory does.
  constexpr int64_t kApart = kTslMostSharing + 1;
  const int64_t each = components * count, aligned = (each + kApart - 1) / kApart * kApart;
  const bool is_added_to = arguments_.device.is_cpu() || sharing > 0;
  const std::vector<int64_t> sizes{members, samples, aligned};
  const at::Tensor parts = is_added_to ? at::zeros(sizes, options) : at::empty(sizes, options);
  group.parts = parts.narrow(2, 0, each).view({members, samples, components, count});

  const auto address = reinterpret_cast<uintptr_t>(parts.mutable_data_ptr());
  TORCH_INTERNAL_ASSERT((address & kTslMostSharing) == 0, "new memory is aligned");
  const int64_t step = aligned * parts.element_size();  // from sample to sample
  for (size_t i = 0; i < group.members.size(); ++i) {
    const Leaf& leaf = *leaves_[group.members[i]];
    memory.set_slot(*leaf.value().gradient_slot, (address + i * samples * step) | sharing, step);
  }
}

at::Tensor ValueGradients::shaped(const at::Tensor& sum, const Leaf& leaf) const {
  if (!arguments_.has_samples()) return sum.view(leaf.element.shape);
  auto sizes = sample_sizes(arguments_);
  sizes.append(leaf.element.shape.begin(), leaf.element.shape.end());
  return sum.view(sizes);
}

std::vector<at::Tensor> ValueGradients::sums() const {
  std::vector<at::Tensor> sums(leaves_.size());
  for (const Group& group : groups_) {
    const std::vector<at::Tensor> slices = taken_apart(summed(group.parts, 3));
    for (size_t i = 0; i < slices.size(); ++i) {
      const size_t member = group.members[i];
      sums[member] = shaped(slices[i], *leaves_[member]);
    }
  }
  return sums;
}

}  // namespace torch_slang
