#include "kernel/learn.h"

#include <algorithm>

#include "signature/element_types.h"
#include "source/marks.h"
#include "torch_slang/error.h"

namespace torch_slang {

bool shows(const Marks& marks, const char* word, int view) {
  return view >= 0 && marks.count(word + std::to_string(view)) != 0;
}

namespace {

bool may_do(const char* word, std::string_view some, const std::vector<int>& views, const Marks& marks, int view) {
  return shows(marks, word, view) ||
         (marks.count(std::string(some)) > 0 && std::find(views.begin(), views.end(), view) != views.end());
}

}  // namespace

bool may_read(const DeviceText& text, const Marks& marks, int view) {
  return may_do("reads ", kReadsSome, text.loaded, marks, view);
}

bool may_write(const DeviceText& text, const Marks& marks, int view) {
  return may_do("writes ", kWritesSome, text.stored, marks, view);
}

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
    const bool is_added_to = leaf.is_hidden && shows(marks, "adds ", leaf.diff_view);
    if (is_added_to || may_read(text, marks, leaf.primal_view)) found.push_back(output);
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
    if (known.indirect[i] || !shows(marks, "dynamic ", op.function.leaves[i].primal_view)) continue;
    known.indirect[i] = more = true;
  }
  more |= learn_scratch_outputs(op, key, marks, known);
  if (key.kind != OpKind::Backward) return more;
  const std::vector<bool> own = own_leaves(op, key, known);
  known.shared.resize(own.size(), false);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i] || !shows(marks, "shares ", op.function.leaves[i].diff_view)) continue;
    known.shared[i] = more = true;
  }
  return more;
}

std::vector<GradientUse> gradient_uses(const Signature& op, const KernelKey& key, const Marks& marks,
                                       const Marks& checked) {
  // Where the compiler did not see to which view something is added, it left the marks of all views. Then outputs that the text
  // does not read back do not count as added to (but in a plain launch, whose gradients are the kernel's own affair). Nor do an operator's inputs count as consumed: that needs a store, and inputs
  // are never stored to.
  const auto ambiguous = [&](const char* word) {
    return std::any_of(op.function.leaves.begin(), op.function.leaves.end(),
                       [&](const Leaf& leaf) { return shows(marks, word, leaf.primal_view); });
  };
  const bool adds_to_any = ambiguous("adds ") && key.kind != OpKind::Launch;
  const bool takes_from_any = ambiguous("takes ") && key.kind == OpKind::Backward;
  const std::vector<int>& loaded = op.text(key.kind, key.types, key.sizes).loaded;
  std::vector<GradientUse> uses;
  for (const Leaf& leaf : op.function.leaves) {
    const bool may_be_added_to =
        !(adds_to_any && leaf.is_output) || std::find(loaded.begin(), loaded.end(), leaf.primal_view) != loaded.end();
    const bool added = shows(marks, "adds ", leaf.diff_view) && may_be_added_to;
    const bool consumed = shows(marks, "takes ", leaf.diff_view) && !(takes_from_any && !leaf.is_output);
    uses.push_back({consumed, added, shows(checked, "promises ", leaf.diff_view)});
  }
  return uses;
}

std::vector<bool> unused_inputs(const KernelSignature& op, const KernelKey& key, const Marks& marks,
                                const Marks& checked) {
  std::vector<bool> unused(op.function.leaves.size(), false);
  if (key.kind != OpKind::Backward) return unused;
  for (size_t i = 0; i < unused.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    unused[i] = leaf.kind == LeafKind::View && !leaf.is_output && !shows(marks, "uses ", leaf.primal_view) &&
                !shows(checked, "uses ", leaf.primal_view);
  }
  return unused;
}

bool may_say_too_much(const Signature& op, const KernelSource& source, const Marks& marks,
                      const std::vector<bool>& own) {
  if (source.checks == Checks::All) return true;
  if (source.checks == Checks::None && !source.polls) return false;
  for (size_t i = 0; i < own.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.kind != LeafKind::View) continue;
    for (const char* word : {"takes ", "adds ", "retypes ", "rank "}) {
      if (shows(marks, word, leaf.primal_view)) return true;
    }
    if (!leaf.is_output && may_write(source.text, marks, leaf.primal_view)) return true;
    if (shows(marks, "retypes ", leaf.diff_view) || may_read(source.text, marks, leaf.diff_view) ||
        may_write(source.text, marks, leaf.diff_view))
      return true;
    if (own[i] && shows(marks, "shares ", leaf.diff_view)) return true;
    if (!leaf.is_output && may_read(source.text, marks, leaf.primal_view)) return true;
  }
  return false;
}

KernelSource without_checks(KernelSource source) {
  source.checks = Checks::None;
  source.polls = false;
  return source;
}

namespace {

// Slang declares `diff` as TensorView<float> whatever the element is.
std::string retyped_gradient(const Leaf& leaf, ElementType type) {
  const int64_t components = component_count(leaf.element);
  const std::string element = slang_name_of(type);
  std::string text =
      c10::str("the gradient of ", leaf.path, " holds ",
               components > 1 ? c10::str("elements of ", components, " ", name_of(type)) : name_of(type),
               " numbers as its values do, but ", leaf.path, ".diff.diff is declared as another type, and ",
               "code of your own loads from it, stores to it or adds to it as such; ");
  if (components > 1) {
    text += "declare the parameter as a view of numbers, with a dimension more";
  } else {
    text += c10::str("give the kernel the gradient as a TensorView<", element, "> parameter of its own");
    if (summing_type(type) == ElementType::Float32 && type != ElementType::Float32)
      text += c10::str(", or declare ", leaf.path, " as DiffTensorViewR<", element,
                       ", 4>, whose gradient is a float there");
  }
  return text + c10::str("; additions by bwd_diff(f)(", leaf.path, ", i, d), of an f that loads from the view, ",
                         "work in every type");
}

}  // namespace

void check_gradient_types(const Signature& op, const KernelKey& key, const Marks& marks) {
  for (const Leaf& leaf : op.function.leaves) {
    if (!shows(marks, "retypes ", leaf.diff_view)) continue;
    throw_compile_error(op.qualified(key.kind), ": ", retyped_gradient(leaf, element_type(leaf.element, key.types)));
  }
}

void check_written_views(const KernelSignature& op, const KernelKey& key, const Marks& marks) {
  check_gradient_types(op, key, marks);
  const DeviceText& text = op.text(key.kind, key.types, key.sizes);
  for (const Leaf& leaf : op.function.leaves) {
    if (leaf.kind == LeafKind::View && shows(marks, "rank ", leaf.primal_view)) {
      throw_compile_error(op.qualified(key.kind), ": expected ", leaf.name,
                          ", which is multiplied or made as matrices, to be declared with two or three dimensions, "
                          "[Shape(\"M, K\")] or [Shape(\"B, M, K\")], but got ",
                          leaf.shape ? "\"" + *leaf.shape + "\"" : "no shape");
    }
    const bool is_writable = is_launch(key.kind) ? !leaf.is_in : leaf.is_output;
    if (leaf.kind != LeafKind::View || is_writable || !may_write(text, marks, leaf.primal_view)) continue;
    if (is_launch(key.kind)) {
      throw_compile_error(op.qualified(key.kind), ": the kernel writes to ", leaf.name, ", which is declared [In]");
    }
    throw_compile_error(op.qualified(key.kind), ": the kernel writes to ", leaf.name,
                        ", which is not an output: declare it [Out(\"shape\")], or call ", op.ns,
                        "::", op.function.name, "_launch, which may change its arguments");
  }
}

}  // namespace torch_slang
