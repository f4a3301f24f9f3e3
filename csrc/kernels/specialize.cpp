#include "kernels/specialize.h"

#include <algorithm>
#include <numeric>

#include "kernels/shared_elements.h"
#include "operators/element_types.h"
#include "program/enumerations.h"
#include "program/intrinsics.h"
#include "source/source_text.h"
#include "specialise/view_use.h"
#include "specialise/virtual_threads.h"

namespace torch_slang {

namespace {

// Bytes of emitted text above which threads inside the launch's bounds do not get a copy of their own, which compilers would
// take long over.
constexpr size_t kMostTextTwice = 64 << 10;

// Above which a host kernel whose threads are not known to be inside its bounds is inlined at once: its checks stay, so its
// loop does not vectorise. The same of one whose threads meet, which has no loop.
constexpr size_t kMostTextInSteps = 24 << 10;
constexpr size_t kMostTextOfMeetings = 4 << 10;

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string device_dim(const DeviceDim& dim) {
  return dim.constant ? std::to_string(*dim.constant) + "u" : "args.dims[" + std::to_string(dim.dim) + "]";
}

int64_t element_bytes(const Leaf& leaf, ElementType type) {
  return std::accumulate(leaf.element.shape.begin(), leaf.element.shape.end(), size_of(type), std::multiplies<>());
}

// `tsl::dense_view<4>(args, 2, args.dims[0], 8u)` where sizes are known, else as the argument block describes it.
std::string view_expression(const KernelSignature& op, const KernelKey& key, int leaf, int view, ElementType type) {
  const std::string index = std::to_string(view);
  // Elements are aligned: a tensor that has them otherwise is copied before the launch (see view_packing.h).
  if (!op.shapes.has_static_rank(leaf)) return "tsl::aligned(tsl::present_view(args, " + index + "))";
  std::string maker = "strided_view";
  if ((key.strided & view_bit(view)) == 0) {
    maker = "dense_view<" + std::to_string(element_bytes(op.function.leaves[leaf], type)) + ">";
  }
  std::string text = "tsl::aligned(tsl::" + maker + "(args, " + index;
  for (const DeviceDim& dim : op.dims.of(leaf)) text += ", " + device_dim(dim);
  return text + "))";
}

std::string primal_expression(const KernelSignature& op, const KernelKey& key, int leaf, const KnownUse& known) {
  const Leaf& self = op.function.leaves[leaf];
  const std::string view =
      view_expression(op, key, leaf, self.place().primal_view, element_type(self.element, key.types));
  if (is_launch(key.kind)) return self.view().is_in ? "tsl::readonly(" + view + ")" : view;
  if (self.is_hidden && !contains(known.scratch_outputs, leaf)) return "tsl::absent(" + view + ")";
  if (key.kind != OpKind::Backward) return self.is_output ? view : "tsl::readonly(" + view + ")";
  const bool absent =
      self.is_output ? !contains(known.scratch_outputs, leaf) : !known.unused.empty() && known.unused[leaf];
  if (absent) return "tsl::absent(" + view + ")";
  return self.is_output ? view : "tsl::readonly(tsl::noted(" + view + "))";
}

// What a view's gradient holds as it is gathered, or its tangent.
ElementType diff_type(const Leaf& leaf, const KernelKey& key, bool is_own) {
  const bool summed = key.kind != OpKind::LaunchJvp && !is_own && has_copies(leaf.view().gathering().memory);
  const ElementType type = element_type(leaf.element, key.types);
  return summed ? summing_type(type) : type;
}

std::string diff_expression(const KernelSignature& op, const KernelKey& key, int leaf, const KnownUse& known,
                            bool is_own) {
  const Leaf& self = op.function.leaves[leaf];
  const ElementType type = diff_type(self, key, is_own);
  const std::string view = view_expression(op, key, leaf, *self.diff_view(), type);
  if (key.kind == OpKind::Forward || is_unwanted(key, self)) return "tsl::absent(" + view + ")";
  const std::string gradient = gradient_view_text(view, element_type(self.element, key.types),
                                                  component_count(self.element), *self.view().gradient_slots);
  // Whether it needs memory, additions to it show: Note [scratch outputs] in learn.cpp.
  return self.is_hidden && !contains(known.scratch_outputs, leaf) ? "tsl::absent(" + gradient + ")" : gradient;
}

std::string make_view_body(const KernelSignature& op, const KernelKey& key, const KnownUse& known,
                           const std::vector<bool>& own) {
  std::string body = "switch (k) {\n";
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    const int index = static_cast<int>(i);
    if (!leaf.is_view()) continue;
    body += "  case " + std::to_string(leaf.place().primal_view) + ": return " +
            primal_expression(op, key, index, known) + ";\n";
    if (!leaf.diff_view()) continue;
    body += "  case " + std::to_string(*leaf.diff_view()) + ": return " +
            diff_expression(op, key, index, known, own[i]) + ";\n";
  }
  return body + "  default: return tsl::present_view(args, k);\n}";
}

// Whether lanes sum their additions to neighbouring elements of this gradient first.
bool is_summed_by_lanes(const KernelKey& key, const Leaf& leaf, const ThreadShare& share) {
  return key.kind == OpKind::Backward && leaf.is_view() && leaf.diff_view() && !leaf.is_output &&
         leaf.view().gathering().may_join_lanes && !is_unwanted(key, leaf) && share.refusal.empty() && share.run > 0 &&
         share.numbers == component_count(leaf.element);
}

// The views of which a thread keeps elements in registers.
std::vector<ThreadView> thread_views(const KernelSignature& op, const KernelKey& key, const KnownUse& known,
                                     const KernelSource& source) {
  const std::vector<bool> own = own_leaves(op, key, known);
  const bool has_vectors = source.threads.lanes > 1;
  const bool stores_by_address = uses(source.text, {intrinsics::kDataPointer, intrinsics::kDataPointerAt});
  const auto is_dense = [&](int view) { return (key.strided & view_bit(view)) == 0; };
  std::vector<ThreadView> views;
  for (size_t i = 0; i < own.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.is_hidden) continue;
    const ThreadShare& share = op.shares[i];
    const auto keep = [&](int view, ThreadView::Kept kept, bool in_vectors) -> ThreadView& {
      ThreadView& added = views.emplace_back();
      added.view = view;
      added.type = element_type(leaf.element, key.types);
      added.components = component_count(leaf.element);
      added.dims = share.dims;
      added.kept = kept;
      added.in_vectors = in_vectors;
      return added;
    };
    const bool has_run = has_vectors && share.run > 0;
    if (own[i]) {
      keep(*leaf.diff_view(), leaf.is_output ? ThreadView::Kept::Given : ThreadView::Kept::Result,
           has_run && is_dense(*leaf.diff_view()));
    } else if (key.kind == OpKind::Backward && !is_unwanted(key, leaf) &&
               is_kept_shared(op, static_cast<int>(i), source.threads)) {
      keep(*leaf.diff_view(), ThreadView::Kept::Shared, false).is_replicated =
          has_replicas(leaf.view().gathering().memory);
    } else if (has_vectors && is_summed_by_lanes(key, leaf, share) && is_dense(*leaf.diff_view())) {
      keep(*leaf.diff_view(), ThreadView::Kept::Summed, true);
    }
    if (!has_run || !is_dense(leaf.place().primal_view)) continue;
    const bool is_indirect = !known.indirect.empty() && known.indirect[i];
    const bool is_single = share.numbers == component_count(leaf.element);
    if (is_indirect && !is_single) continue;
    if (leaf.is_output && (key.kind == OpKind::Backward || stores_by_address || !share.refusal.empty())) continue;
    if (!leaf.is_output && (!key.independent || (!known.unused.empty() && known.unused[i]))) continue;
    keep(leaf.place().primal_view, leaf.is_output ? ThreadView::Kept::Output : ThreadView::Kept::Input, true)
        .serves_neighbours = is_single && !is_indirect;
  }
  return views;
}

// Whether the host's kernel is compiled so that it holds sums (Note [held sums] in prelude/held_sums.h). If its code then shows
// that it reads a gradient which it adds to, it is compiled again without. A large kernel would take compilers much longer.
bool holds_sums(const KernelKey& key, const KernelSource& source) {
  return is_backward(key.kind) && key.independent && source.checks != Checks::All &&
         source.text.body.size() <= kMostTextTwice &&
         uses(source.text, {intrinsics::kAccumulate, intrinsics::kAccumulateFixed}) &&
         !uses(source.text, {intrinsics::kDataPointer, intrinsics::kDataPointerAt});
}

bool is_inlined_at_once(const KernelSource& source) {
  const size_t size = source.text.body.size();
  if (source.text.barriers || source.text.waves) return size > kMostTextOfMeetings;
  return source.thread_bounds.empty() && size > kMostTextInSteps;
}

}  // namespace

std::vector<bool> own_leaves(const KernelSignature& op, const KernelKey& key, const KnownUse& known) {
  std::vector<bool> own(op.function.leaves.size(), false);
  // Debug mode notes in memory who touches which element, so all must go there.
  if (key.kind != OpKind::Backward || op.options.checks(key.device) == Checks::All) return own;
  for (size_t i = 0; i < own.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_view() || !leaf.diff_view() || !leaf.view().gathering().is_ours) continue;
    if (leaf.is_hidden) continue;
    if (is_unwanted(key, leaf) || (!known.shared.empty() && known.shared[i])) continue;
    own[i] = op.shares[i].refusal.empty();
  }
  return own;
}

KernelSource specialize(const KernelSignature& op, const KernelKey& key, const KnownUse& known) {
  KernelSource source;
  source.op = op.qualified(key.kind);
  source.text = op.text(key.kind, key.types);
  source.view_count = op.layout.view_count();
  source.slot_count = op.layout.slot_count();
  source.dim_count = op.layout.dim_count();
  const std::vector<bool> own = own_leaves(op, key, known);
  source.gradient_scalars = 0;
  std::set<int64_t> component_counts;
  for (size_t i = 0; i < own.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.diff_view()) continue;
    source.gradient_scalars |= 1u << static_cast<unsigned>(diff_type(leaf, key, own[i]));
    component_counts.insert(component_count(leaf.element));
  }
  source.gradient_components = component_counts.size() == 1 ? *component_counts.begin() : 0;
  source.make_view = make_view_body(op, key, known, own);
  if (source.text.body.size() <= kMostTextTwice) {
    for (const DeviceDim& dim : op.dims.of_launch()) source.thread_bounds.push_back(device_dim(dim));
  }
  if (key.sample_dims > 0 && !multiplies(source)) {
    source.sample_dims = key.sample_dims;
    source.pointer_slots = op.layout.pointer_slots();
  }
  source.checks = op.options.checks(key.device);
  source.polls = op.options.polls(key.device);
  source.threads = allowed_threads(key.threads, {.size = source.text.body.size(),
                                                 .has_waves = source.text.waves,
                                                 .has_barriers = source.text.barriers,
                                                 .multiplies = multiplies(source),
                                                 .has_samples = key.sample_dims > 0,
                                                 .is_checked = source.checks != Checks::None,
                                                 .has_bounds = !source.thread_bounds.empty()});
  if (!is_launch(key.kind)) {  // a launch op's block is the caller's
    const auto& block = op.function.kernel().block_size;
    for (size_t i = 0; i < 3 && !block.empty(); ++i)
      source.block[i] = i < block.size() ? static_cast<uint32_t>(block[i]) : 1;
  }
  if (source.threads.block[0] > 0) std::copy_n(source.threads.block, 3, source.block);
  if (key.block[0] > 0) std::copy(key.block.begin(), key.block.end(), source.block);
  source.independent_views = key.independent;
  source.wraps = key.wraps;
  source.at_once = key.device.is_cpu() && is_inlined_at_once(source);
  source.holds_sums = key.device.is_cpu() && holds_sums(key, source);
  source.joins_neighbours = is_backward(key.kind) && may_have_wave_sums(key, source) && has_runs(source.text);
  source.fast_math = op.options.fast_math;
  source.thread_views = thread_views(op, key, known, source);
  // What a debug check asks of a whole wave, the host can only answer where lanes meet.
  if (source.checks == Checks::All && uses(source.text, {intrinsics::kAccumulateFixed})) {
    source.text.waves = true;
  }
  return source;
}

}  // namespace torch_slang
