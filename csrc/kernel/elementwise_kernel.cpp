#include "kernel/elementwise_kernel.h"

#include <c10/util/StringUtil.h>

#include <set>

#include "common/error.h"
#include "kernel/elementwise_variant.h"
#include "kernel/learn.h"
#include "kernel/view_text.h"
#include "program/intrinsics.h"
#include "signature/element_types.h"

namespace torch_slang {

namespace {

// Whether a plain function that sees no tensors does what checks look at.
bool has_checks(const DeviceText& text, Checks checks) {
  using namespace intrinsics;
  return uses(text, {kIterate, kIndex, kVectorElement, kVectorElementPointer}) ||
         (checks == Checks::All && uses(text, {kDivide, kRemainder}));
}

std::string present_view(int view) { return c10::str("tsl::aligned(tsl::present_view(args, ", view, "))"); }

// A backward runs the forward once more, whose stores are not to be seen.
std::string primal_view(const Leaf& leaf, OpKind kind) {
  const std::string view = present_view(leaf.primal_view);
  if (!leaf.is_written) return "tsl::readonly(" + view + ")";
  return kind == OpKind::Backward ? "tsl::absent(" + view + ")" : view;
}

bool is_wanted(const KernelKey& key, const ElementwiseVariant& variant, size_t leaf) {
  return key.kind == OpKind::Backward && variant.gradient(leaf) == ElementwiseVariant::Gathered;
}

// Note [whole tensors] in program/program.h.
void add_whole_views(const ElementwiseSignature& op, const KernelKey& key, KernelSource& source) {
  const ElementwiseVariant variant(key.variant);
  std::set<int64_t> component_counts;
  source.make_view = "switch (k) {\n";
  source.gradient_scalars = 0;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_whole) continue;
    source.make_view += c10::str("  case ", leaf.primal_view, ": return ", primal_view(leaf, key.kind), ";\n");
    if (leaf.diff_view < 0) continue;
    const ElementType type = element_type(leaf.element, key.types);
    const int64_t components = component_count(leaf.element, key.sizes);
    std::string view = present_view(leaf.diff_view);
    view = is_wanted(key, variant, i) ? gradient_view_text(view, type, components, leaf.gradient_slots)
                                      : "tsl::absent(" + view + ")";
    source.make_view += c10::str("  case ", leaf.diff_view, ": return ", view, ";\n");
    const bool is_summed = leaf.accumulation == Accumulation::Replicated || leaf.accumulation == Accumulation::Recorded;
    source.gradient_scalars |= 1u << static_cast<unsigned>(is_summed ? summing_type(type) : type);
    component_counts.insert(components);
  }
  source.make_view += "  default: return tsl::present_view(args, k);\n}";
  source.gradient_components = component_counts.size() == 1 ? *component_counts.begin() : 0;
}

// Throws CompileError for what the compiled code does to tensors that it may not do.
void check_whole_views(const ElementwiseSignature& op, const KernelKey& key, const Marks& marks) {
  check_gradient_types(op, key, marks);
  for (const Leaf& leaf : op.function.leaves) {
    if (!leaf.is_whole) continue;
    if (!leaf.is_written && shows(marks, "writes ", leaf.primal_view)) {
      throw_compile_error(op.qualified(key.kind), ": the function stores to ", leaf.path, ", a ", leaf.slang_type,
                          leaf.is_in ? ", which is declared [In]"
                                     : ", but its differentiable results are what it returns: return the value, or "
                                       "declare a TensorView, which has no gradient, or make it a kernel");
    }
    if (leaf.is_written && key.kind == OpKind::Backward && shows(marks, "reads ", leaf.primal_view)) {
      throw_compile_error(
          op.qualified(key.kind), ": the gradient depends on what the function reads from ", leaf.path,
          ", a tensor that it stores to: what was there is gone in the backward. Keep the value in a local "
          "variable, or read from another tensor");
    }
  }
}

}  // namespace

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key) {
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
  source.map = map_loop(op, key.kind, ElementwiseVariant(key.variant), key.sizes);
  source.fast_math = op.options.fast_math;
  if (source.map->sees_tensors) add_whole_views(op, key, source);
  if (key.device.is_cpu()) source.text.waves = false;  // Note [lone lanes] in prelude/host_meet.h
  if (source.map->sees_tensors || has_checks(source.text, op.options.checks(key.device)))
    source.checks = op.options.checks(key.device);
  source.polls = op.options.polls(key.device);
  return source;
}

// What the code shows of its tensors shows without checks, which add branches.
std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key) {
  Backend& backend = backend_for(key.device.type());
  const KernelSource source = specialize(op, key);
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->kernel = backend.load(source, key.device);
  if (!sees_tensors(op.function)) return loaded;
  std::shared_ptr<const Kernel> facts = loaded->kernel;
  if (may_say_too_much(op, source, facts->marks())) facts = backend.load(without_checks(source), key.device);
  check_whole_views(op, key, facts->marks());
  loaded->gradients = gradient_uses(op, key, facts->marks(), loaded->kernel->marks());
  return loaded;
}

}  // namespace torch_slang
