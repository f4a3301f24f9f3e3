#include "kernels/shared_elements.h"

#include <algorithm>
#include <numeric>

#include "operators/element_types.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

constexpr int64_t kMostLanes = 8;

}  // namespace

std::string why_not_own(const KernelSignature& op, int leaf) {
  if (!op.function.leaves[leaf].view().gathering().is_ours) return "its wrapper is the user's";
  return op.shares[leaf].refusal;
}

int64_t own_bytes(const KernelSignature& op, OpKind kind, const std::vector<ElementType>& types) {
  int64_t bytes = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_view()) continue;
    if (leaf.is_output && (kind != OpKind::Backward || !leaf.diff_view())) continue;
    const ThreadShare& share = op.shares[i];
    bytes += (share.refusal.empty() ? share.numbers : component_count(leaf.element)) *
             size_of(element_type(leaf.element, types));
  }
  return bytes;
}

namespace {

bool has_no_dimension_along(const ThreadShare& share, int axis) {
  return std::none_of(share.dims.begin(), share.dims.end(), [&](const ShareDim& dim) { return dim.axis == axis; });
}

// Whose sums may wait in registers.
bool may_share(const Leaf& leaf, const ThreadShare& share) {
  return leaf.is_view() && leaf.diff_view() && !leaf.is_output && !share.missing.empty() &&
         leaf.view().gathering().may_sum_first;
}

}  // namespace

int shared_axis(const KernelSignature& op, const KernelKey& key) {
  if (key.kind != OpKind::Backward) return -1;
  int found = -1;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (may_share(leaf, op.shares[i]) && !is_unwanted(key, leaf)) found = std::max(found, op.shares[i].missing.back());
  }
  return found;
}

bool is_kept_shared(const KernelSignature& op, int index, const VirtualThreads& threads) {
  constexpr int64_t kMostSums = 64;  // in registers
  const ThreadShare& share = op.shares[index];
  if (!threads.shares || !may_share(op.function.leaves[index], share)) return false;
  if (std::count(share.missing.begin(), share.missing.end(), threads.axis) == 0) return false;
  const bool lacks_x = has_no_dimension_along(share, 0);
  if (share.numbers * (lacks_x ? 1 : threads.lanes) > kMostSums) return false;
  // A wave adds up what its threads share, so all of them must share it.
  return !lacks_x || threads.block[0] % kWave == 0 ||
         (has_no_dimension_along(share, 1) && has_no_dimension_along(share, 2));
}

int lanes_of_vectors(const KernelSignature& op, OpKind kind, const std::vector<ElementType>& types) {
  if (is_launch(kind)) return 1;
  int64_t lanes = 1;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (op.shares[i].run == 0 || (leaf.is_output && kind == OpKind::Backward && !leaf.diff_view())) continue;
    const int64_t bytes = op.shares[i].run * size_of(element_type(leaf.element, types));
    lanes = std::max(lanes, kVectorBytes / std::gcd(kVectorBytes, bytes));
  }
  return static_cast<int>(std::min(lanes, kMostLanes));
}

}  // namespace torch_slang
