#include "functions/kernel.h"

#include <c10/util/StringUtil.h>

#include <set>

#include "functions/variant.h"
#include "operators/element_types.h"
#include "program/intrinsics.h"
#include "specialise/view_use.h"
#include "torch_slang/error.h"

namespace torch_slang {

namespace {

using Gradient = ElementwiseVariant::Gradient;

// Whether a plain function that sees no tensors does what checks look at.
bool has_checks(const DeviceText& text, Checks checks) {
  using namespace intrinsics;
  return uses(text, {kIterate, kIndex, kVectorElement, kVectorElementPointer}) ||
         (checks == Checks::All && uses(text, {kDivide, kRemainder}));
}

std::string present_view(int view) { return c10::str("tsl::aligned(tsl::present_view(args, ", view, "))"); }

// A backward runs the forward once more, whose stores are not to be seen.
std::string primal_view(const Leaf& leaf, OpKind kind) {
  const std::string view = present_view(leaf.place().primal_view);
  if (!leaf.is_written()) return "tsl::readonly(" + view + ")";
  return kind == OpKind::Backward ? "tsl::absent(" + view + ")" : view;
}

bool is_wanted(const KernelKey& key, size_t leaf) {
  return key.kind == OpKind::Backward && key.variant.leaves[leaf].is_whole();
}

std::optional<PlaceDims> own_dims(const ElementwiseVariant& variant, const OwnTries& tries, size_t leaf) {
  const std::vector<PlaceDims>& orders = variant.owned_dim_orders(leaf);
  return tries[leaf] < orders.size() ? std::optional(orders[tries[leaf]]) : std::nullopt;
}

int place_number(MapLoop& map, int view, int component) {
  for (size_t i = 0; i < map.places.size(); ++i) {
    if (map.places[i].view == view && map.places[i].component == component) return static_cast<int>(i);
  }
  map.places.push_back({view, component});
  return static_cast<int>(map.places.size()) - 1;
}

// How a thread keeps the gradient of a tensor in registers: its own elements, or sums of all.
void keep_in_registers(const ElementwiseSignature& op, const KernelKey& key, size_t leaf,
                       const std::optional<PlaceDims>& own, KernelSource& source) {
  const Leaf& self = op.function.leaves[leaf];
  ThreadView view;
  view.view = *self.diff_view();
  view.type = element_type(self.element, key.types);
  view.components = component_count(self.element, key.sizes);
  view.is_replicated = has_replicas(self.view().gathering().memory);
  view.numbers = kFewNumbers;
  view.kept = own ? ThreadView::Kept::Result : ThreadView::Kept::Few;
  for (const PlaceDim& dim : own.value_or(PlaceDims())) {
    ShareDim& share = view.dims.emplace_back();
    if (dim.leaf < 0)
      share.size = dim.size;
    else
      share.place = place_number(*source.map, op.function.leaves[dim.leaf].place().primal_view, dim.component);
  }
  source.thread_views.push_back(std::move(view));
}

// Note [whole tensors] in program/program.h.
void add_whole_views(const ElementwiseSignature& op, const KernelKey& key, const OwnTries& tries,
                     KernelSource& source) {
  std::set<int64_t> component_counts;
  source.make_view = "switch (k) {\n";
  source.gradient_scalars = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_whole()) continue;
    source.make_view += c10::str("  case ", leaf.place().primal_view, ": return ", primal_view(leaf, key.kind), ";\n");
    if (!leaf.diff_view()) continue;
    const ElementType type = element_type(leaf.element, key.types);
    const int64_t components = component_count(leaf.element, key.sizes);
    std::string view = present_view(*leaf.diff_view());
    view = is_wanted(key, i) ? gradient_view_text(view, type, components, *leaf.view().gradient_slots)
                             : "tsl::absent(" + view + ")";
    source.make_view += c10::str("  case ", *leaf.diff_view(), ": return ", view, ";\n");
    const auto own = own_dims(key.variant, tries, i);
    if (is_wanted(key, i) && (own || key.variant.leaves[i].gradient == Gradient::Few))
      keep_in_registers(op, key, i, own, source);
    const bool is_summed = !own && has_copies(leaf.view().gathering().memory);
    source.gradient_scalars |= 1u << static_cast<unsigned>(is_summed ? summing_type(type) : type);
    component_counts.insert(components);
  }
  source.make_view += "  default: return tsl::present_view(args, k);\n}";
  source.gradient_components = component_counts.size() == 1 ? *component_counts.begin() : 0;
}

// Throws CompileError for what the compiled code does to tensors that it may not do.
void check_whole_views(const ElementwiseSignature& op, const KernelKey& key, const Marks& marks) {
  check_gradient_types(op, key, marks);
  const DeviceText& text = op.text(key.kind, key.types, key.sizes);
  for (const Leaf& leaf : op.function.leaves) {
    if (!leaf.is_whole()) continue;
    if (!leaf.is_written() && may_write(text, marks, leaf.place().primal_view)) {
      throw_compile_error(op.qualified(key.kind), ": the function stores to ", leaf.path, ", a ", leaf.slang_type,
                          leaf.view().is_in
                              ? ", which is declared [In]"
                              : ", but its differentiable results are what it returns: return the value, or "
                                "declare a TensorView, which has no gradient, or make it a kernel");
    }
    if (leaf.is_written() && key.kind == OpKind::Backward && may_read(text, marks, leaf.place().primal_view)) {
      throw_compile_error(op.qualified(key.kind), ": the gradient depends on what the function reads from ", leaf.path,
                          ", a tensor that it stores to: the values before the stores are lost in the backward. Keep "
                          "the value in a local "
                          "variable, or read from another tensor");
    }
  }
}

// Whether lanes sum first (Note [wave sums] in prelude/wave_sums.h). That costs a loop nothing that could be measured where no
// additions meet, so it is not a choice by measuring. The text shows that no gradient is taken from where it is added to.
bool has_wave_sums(const ElementwiseSignature& op, const KernelKey& key, const OwnTries& tries,
                   const KernelSource& source) {
  if (!may_have_wave_sums(key, source) || key.threads.adds_apart) return false;
  if (uses(source.text, {intrinsics::kTake, intrinsics::kTakeUniform, intrinsics::kTakeOnce})) return false;
  if (uses(source.text, {intrinsics::kAddOnly})) return true;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const bool is_gathered = is_wanted(key, i) && key.variant.leaves[i].gradient == Gradient::Gathered;
    if (is_gathered && !own_dims(key.variant, tries, i)) return true;
  }
  return false;
}

}  // namespace

OwnTries first_tries(const ElementwiseSignature& op) { return OwnTries(op.function.leaves.size(), 0); }

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key, const OwnTries& tries) {
  KernelSource source;
  source.op = op.qualified(key.kind);
  source.text = op.text(key.kind, key.types, key.sizes);
  if (source.text.barriers || (source.text.waves && !sees_tensors(op.function))) {
    throw_compile_error(source.op, ": a plain function runs for each element on its own, but this one uses ",
                        source.text.barriers ? "group-shared memory or barriers" : "wave operations",
                        ": make it a kernel");
  }
  source.view_count = op.layout.view_count();
  source.slot_count = op.layout.slot_count();
  source.dim_count = op.layout.dim_count();
  source.make_view = "return tsl::present_view(args, k);";
  source.independent_views = key.independent;
  source.map = map_loop(op, key.kind, key.variant, key.sizes);
  source.fast_math = op.options.fast_math;
  if (source.map->sees_tensors) add_whole_views(op, key, tries, source);
  if (key.device.is_cpu()) source.text.waves = false;  // Note [lone lanes] in prelude/host_meet.h
  if (source.map->sees_tensors || has_checks(source.text, op.options.checks(key.device)))
    source.checks = op.options.checks(key.device);
  source.polls = op.options.polls(key.device);
  source.has_wave_sums = has_wave_sums(op, key, tries, source);
  return source;
}

bool learn(const ElementwiseSignature& op, const KernelKey& key, const Marks& marks, OwnTries& tries) {
  bool more = false;
  for (size_t i = 0; i < tries.size(); ++i) {
    if (!own_dims(key.variant, tries, i) || !shows(marks, "shares ", op.function.leaves[i].diff_view())) continue;
    ++tries[i];
    more = true;
  }
  return more;
}

// What the code shows of its tensors shows without checks, which add branches.
std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key) {
  Backend& backend = backend_for(key.device.type());
  const auto load = [&](const KernelSource& source) { return backend.load(source, key.device); };
  OwnTries tries = first_tries(op);
  KernelSource source = specialize(op, key, tries);
  auto loaded = std::make_shared<LoadedKernel>();
  std::shared_ptr<const Kernel> facts;
  if (!key.variant.owned.empty()) {
    facts = load(without_checks(source));
    while (learn(op, key, facts->marks(), tries)) {
      source = specialize(op, key, tries);
      facts = load(without_checks(source));
    }
  }
  const bool is_facts = facts != nullptr && source.checks == Checks::None && !source.polls;
  loaded->kernel = is_facts ? facts : load(source);
  loaded->has_wave_sums = source.has_wave_sums;
  if (!sees_tensors(op.function)) return loaded;
  for (size_t i = 0; i < tries.size(); ++i) loaded->own_dims.push_back(own_dims(key.variant, tries, i));
  if (facts == nullptr) {
    const std::vector<bool> none(op.function.leaves.size(), false);
    const bool is_clear = !may_say_too_much(op, source, loaded->kernel->marks(), none);
    facts = is_clear ? loaded->kernel : load(without_checks(source));
  }
  check_whole_views(op, key, facts->marks());
  loaded->gradients = gradient_uses(op, key, facts->marks(), loaded->kernel->marks());
  return loaded;
}

}  // namespace torch_slang
