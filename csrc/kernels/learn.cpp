#include "kernels/learn.h"

#include <algorithm>

#include "operators/element_types.h"
#include "source/marks.h"
#include "torch_slang/error.h"

namespace torch_slang {

namespace {

// Throws if a backward needs values that the forward read back from one of these outputs, and Slang cannot provide them. Slang's
// derivative keeps a loaded value for later, except for BFloat16, where it loads again: after the last store. A function
// that is run again in the backward sees the output as the forward left it.
void check_stored_values(const KernelSignature& op, const KernelKey& key, const std::vector<int>& scratch_outputs) {
  const DeviceText& text = op.text(key.kind, key.types, key.sizes);
  if (text.rereads) {
    throw_compile_error(
        op.qualified(key.kind), ": the gradient depends on what the kernel reads back from its output ",
        op.function.leaves[scratch_outputs.front()].name,
        ", and it calls a [PreferRecompute] function that loads: the backward would load again, after the last "
        "store. Load before the call, or take [PreferRecompute] away");
  }
  for (const int output : scratch_outputs) {
    const Leaf& leaf = op.function.leaves[output];
    if (element_type(leaf.element, key.types) != ElementType::BFloat16) continue;
    throw_compile_error(op.qualified(key.kind), ": the gradient depends on what the kernel reads back from its output ",
                        leaf.name,
                        ", which Slang does not differentiate for bfloat16: keep the value in a local "
                        "variable, or call the kernel with another dtype");
  }
}

// Note [scratch outputs]
//   Without memory a stored value vanishes, and what it was made of is dead code. So once an output has memory because the kernel
//   reads it back, the kernel may be seen to read another. A hidden output's gradient has memory where its values have: also
//   where the kernel adds to that gradient, which needs no value of a function whose derivative is the user's own.
bool learn_scratch_outputs(const KernelSignature& op, const KernelKey& key, const Marks& marks, KnownUse& known) {
  const DeviceText& text = op.text(key.kind, key.types, key.sizes);
  std::vector<int> outputs = op.hidden, found;
  if (key.kind == OpKind::Backward) outputs.insert(outputs.end(), op.outputs.begin(), op.outputs.end());
  for (const int output : outputs) {
    const Leaf& leaf = op.function.leaves[output];
    const auto& scratch = known.scratch_outputs;
    if (std::find(scratch.begin(), scratch.end(), output) != scratch.end()) continue;
    const bool is_added_to = leaf.is_hidden && shows(marks, "adds ", leaf.diff_view());
    if (is_added_to || may_read(text, marks, leaf.place().primal_view)) found.push_back(output);
  }
  if (found.empty()) return false;
  if (key.kind == OpKind::Backward) check_stored_values(op, key, found);
  known.scratch_outputs.insert(known.scratch_outputs.end(), found.begin(), found.end());
  return true;
}

}  // namespace

bool learn(const KernelSignature& op, const KernelKey& key, const Marks& marks, KnownUse& known) {
  bool more = false;
  known.indirect.resize(op.function.leaves.size(), false);
  for (size_t i = 0; i < known.indirect.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (known.indirect[i] || !leaf.is_view() || !shows(marks, "dynamic ", leaf.view().primal_view)) continue;
    known.indirect[i] = more = true;
  }
  more |= learn_scratch_outputs(op, key, marks, known);
  if (key.kind != OpKind::Backward) return more;
  const std::vector<bool> own = own_leaves(op, key, known);
  known.shared.resize(own.size(), false);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i] || !shows(marks, "shares ", op.function.leaves[i].diff_view())) continue;
    known.shared[i] = more = true;
  }
  return more;
}

std::vector<bool> unused_inputs(const KernelSignature& op, const KernelKey& key, const Marks& marks,
                                const Marks& checked) {
  std::vector<bool> unused(op.function.leaves.size(), false);
  if (key.kind != OpKind::Backward) return unused;
  for (size_t i = 0; i < unused.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    unused[i] = leaf.is_view() && !leaf.is_output && !shows(marks, "uses ", leaf.place().primal_view) &&
                !shows(checked, "uses ", leaf.place().primal_view);
  }
  return unused;
}

void check_written_views(const KernelSignature& op, const KernelKey& key, const Marks& marks) {
  check_gradient_types(op, key, marks);
  const DeviceText& text = op.text(key.kind, key.types, key.sizes);
  for (const Leaf& leaf : op.function.leaves) {
    if (!leaf.is_view()) continue;
    const ViewLeaf& view = leaf.view();
    if (shows(marks, "rank ", view.primal_view)) {
      throw_compile_error(op.qualified(key.kind), ": expected ", leaf.name,
                          ", which is multiplied or made as matrices, to be declared with two or three dimensions, "
                          "[Shape(\"M, K\")] or [Shape(\"B, M, K\")], but got ",
                          view.shape ? "\"" + *view.shape + "\"" : "no shape");
    }
    const bool is_writable = is_launch(key.kind) ? !view.is_in : leaf.is_output;
    if (is_writable || !may_write(text, marks, view.primal_view)) continue;
    if (is_launch(key.kind)) {
      throw_compile_error(op.qualified(key.kind), ": the kernel writes to ", leaf.name, ", which is declared [In]");
    }
    throw_compile_error(op.qualified(key.kind), ": the kernel writes to ", leaf.name,
                        ", which is not an output: declare it [Out(\"shape\")], or call ", op.ns,
                        "::", op.function.name, "_launch, which may change its arguments");
  }
}

}  // namespace torch_slang
