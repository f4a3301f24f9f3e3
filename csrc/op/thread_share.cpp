#include "op/thread_share.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>

#include "op/operator.h"
#include "op/specialize.h"
#include "op/view_packing.h"

namespace torch_slang {
namespace {

constexpr int64_t kMostNumbers = 32;  // in registers
constexpr int64_t kMostLanes = 8;

bool is_one(const Expression& e) { return e.kind == Expression::Kind::Constant && e.constant == 1; }

int64_t run_of(const std::vector<ShareDim>& dims, int64_t components) {
  int64_t run = components;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->axis == 0) return run;
    if (dim->axis > 0) return 0;
    run *= dim->size;
  }
  return 0;
}

}  // namespace

// Each axis of the launch is one of the view's dimensions (of several that fit, the inner one for x), or threads along it
// share what they have; the other dimensions are small constants.
ThreadShare thread_share(const Operator& op, int leaf) {
  ThreadShare share;
  const auto nothing = [](std::string refusal) {
    ThreadShare none;
    none.refusal = std::move(refusal);
    return none;
  };
  if (!op.shapes.has_static_rank(leaf)) return nothing("it has no Shape");
  std::vector<Expression> launch = op.shapes.launch_dims();
  if (launch.empty()) return nothing("the launch is not along dimensions");
  while (launch.size() > 1 && is_one(launch.back())) launch.pop_back();
  const std::vector<Expression> dims = op.shapes.visible_dims(leaf);
  share.dims.resize(dims.size());
  for (size_t axis = 0; axis < launch.size(); ++axis) {
    size_t i = dims.size();
    while (i > 0 && !(share.dims[i - 1].axis < 0 && dims[i - 1] == launch[axis])) --i;
    if (i > 0)
      share.dims[i - 1].axis = static_cast<int>(axis);
    else
      share.missing.push_back(static_cast<int>(axis));
  }
  if (!share.missing.empty())
    share.refusal = c10::str("no dimension of it is the launch's along ", "xyz"[share.missing.front()],
                             ": threads there may share its elements");
  const auto& block = op.function.block_size;
  for (size_t axis = launch.size(); axis < block.size() && share.refusal.empty(); ++axis) {
    if (block[axis] != 1)
      share.refusal = c10::str("the block has several threads along ", "xyz"[axis], ", the launch one");
  }
  const int64_t components = component_count(op.function.leaves[leaf].element);
  share.numbers = components;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (share.dims[i].axis >= 0) continue;
    const bool is_constant = dims[i].kind == Expression::Kind::Constant && dims[i].constant >= 1;
    share.dims[i].size = is_constant ? dims[i].constant : kMostNumbers + 1;
    share.numbers *= std::min(share.dims[i].size, kMostNumbers + 1);
  }
  if (share.numbers > kMostNumbers) {
    return nothing(!share.refusal.empty()
                       ? share.refusal
                       : c10::str("each thread has more of it than registers hold (", kMostNumbers, " numbers)"));
  }
  share.run = run_of(share.dims, components);
  return share;
}

std::string why_not_own(const Operator& op, int leaf) {
  if (op.function.leaves[leaf].accumulation == Accumulation::Custom) return "its wrapper is the user's";
  return op.shares[leaf].refusal;
}

int64_t own_bytes(const Operator& op, OpKind kind, const std::vector<ElementType>& types) {
  int64_t bytes = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.kind != LeafKind::View) continue;
    if (leaf.is_output && (kind != OpKind::Backward || leaf.diff_view < 0)) continue;
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
  return leaf.kind == LeafKind::View && leaf.diff_view >= 0 && !leaf.is_output && !share.missing.empty() &&
         (leaf.accumulation == Accumulation::Atomic || leaf.accumulation == Accumulation::Replicated);
}

}  // namespace

int shared_axis(const Operator& op, const KernelKey& key) {
  if (key.kind != OpKind::Backward) return -1;
  int found = -1;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (may_share(leaf, op.shares[i]) && !is_unwanted(key, leaf)) found = std::max(found, op.shares[i].missing.back());
  }
  return found;
}

bool is_kept_shared(const Operator& op, int index, const VirtualThreads& threads) {
  constexpr int64_t kMostSums = 64;  // in registers
  constexpr uint32_t kWave = 32;
  const ThreadShare& share = op.shares[index];
  if (!threads.shares || !may_share(op.function.leaves[index], share)) return false;
  if (std::count(share.missing.begin(), share.missing.end(), threads.axis) == 0) return false;
  const bool lacks_x = has_no_dimension_along(share, 0);
  if (share.numbers * (lacks_x ? 1 : threads.lanes) > kMostSums) return false;
  // A wave adds up what its threads share, so all of them must share it.
  return !lacks_x || threads.block[0] % kWave == 0 ||
         (has_no_dimension_along(share, 1) && has_no_dimension_along(share, 2));
}

int lanes_of_words(const Operator& op, OpKind kind, const std::vector<ElementType>& types) {
  if (is_launch(kind)) return 1;
  int64_t lanes = 1;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (op.shares[i].run == 0 || (leaf.is_output && kind == OpKind::Backward && leaf.diff_view < 0)) continue;
    const int64_t bytes = op.shares[i].run * size_of(element_type(leaf.element, types));
    lanes = std::max(lanes, kWordBytes / std::gcd(kWordBytes, bytes));
  }
  return static_cast<int>(std::min(lanes, kMostLanes));
}

}  // namespace torch_slang
