#include "specialise/view_use.h"

#include <algorithm>
#include <cctype>

#include "operators/element_types.h"
#include "program/intrinsics.h"
#include "source/marks.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {

bool shows(const Marks& marks, const char* word, std::optional<int> view) {
  return view && marks.count(word + std::to_string(*view)) != 0;
}

namespace {

bool may_do(const char* word, std::string_view some, const std::vector<int>& views, const Marks& marks,
            std::optional<int> view) {
  return shows(marks, word, view) ||
         (marks.count(std::string(some)) > 0 && std::find(views.begin(), views.end(), view) != views.end());
}

}  // namespace

bool may_read(const DeviceText& text, const Marks& marks, std::optional<int> view) {
  return may_do("reads ", kReadsSome, text.loaded, marks, view);
}

bool may_write(const DeviceText& text, const Marks& marks, std::optional<int> view) {
  return may_do("writes ", kWritesSome, text.stored, marks, view);
}

bool may_have_wave_sums(const KernelKey& key, const KernelSource& source) {
  if (key.device.is_cpu() || multiplies(source) || source.checks != Checks::None) return false;
  if (!is_backward(key.kind)) return uses(source.text, {intrinsics::kAddOnly});
  return key.independent && uses(source.text, {intrinsics::kAccumulate, intrinsics::kAddOnly});
}

std::vector<GradientUse> gradient_uses(const Signature& op, const KernelKey& key, const Marks& marks,
                                       const Marks& checked) {
  // Where the compiler did not see to which view something is added, it left the marks of all views. Then outputs that the text
  // does not read back do not count as added to (but in a plain launch, whose gradients are the kernel's own affair). Nor do an operator's inputs count as consumed: that needs a store, and inputs
  // are never stored to.
  const auto ambiguous = [&](const char* word) {
    return std::any_of(op.function.leaves.begin(), op.function.leaves.end(), [&](const Leaf& leaf) {
      return !leaf.is_value() && shows(marks, word, leaf.place().primal_view);
    });
  };
  const bool adds_to_any = ambiguous("adds ") && key.kind != OpKind::Launch;
  const bool takes_from_any = ambiguous("takes ") && key.kind == OpKind::Backward;
  const std::vector<int>& loaded = op.text(key.kind, key.types, key.sizes).loaded;
  std::vector<GradientUse> uses;
  for (const Leaf& leaf : op.function.leaves) {
    const bool may_be_added_to = !(adds_to_any && leaf.is_output) ||
                                 std::find(loaded.begin(), loaded.end(), leaf.place().primal_view) != loaded.end();
    const bool added = shows(marks, "adds ", leaf.diff_view()) && may_be_added_to;
    const bool consumed = shows(marks, "takes ", leaf.diff_view()) && !(takes_from_any && !leaf.is_output);
    uses.push_back({consumed, added, shows(checked, "promises ", leaf.diff_view())});
  }
  return uses;
}

bool may_say_too_much(const Signature& op, const KernelSource& source, const Marks& marks,
                      const std::vector<bool>& own) {
  if (source.checks == Checks::All) return true;
  if (source.checks == Checks::None && !source.polls) return false;
  for (size_t i = 0; i < own.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_view()) continue;
    for (const char* word : {"takes ", "adds ", "retypes ", "rank "}) {
      if (shows(marks, word, leaf.place().primal_view)) return true;
    }
    if (!leaf.is_output && may_write(source.text, marks, leaf.place().primal_view)) return true;
    if (shows(marks, "retypes ", leaf.diff_view()) || may_read(source.text, marks, leaf.diff_view()) ||
        may_write(source.text, marks, leaf.diff_view()))
      return true;
    if (own[i] && shows(marks, "shares ", leaf.diff_view())) return true;
    if (!leaf.is_output && may_read(source.text, marks, leaf.place().primal_view)) return true;
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
    if (!shows(marks, "retypes ", leaf.diff_view())) continue;
    throw_compile_error(op.qualified(key.kind), ": ", retyped_gradient(leaf, element_type(leaf.element, key.types)));
  }
}

namespace {

// As the prelude names the type of a view's scalars: kFloat32.
std::string scalar_tag(ElementType type) {
  std::string name = name_of(type);
  const size_t capitals = name.starts_with("bf") || name.starts_with("ui") ? 2 : 1;
  for (size_t i = 0; i < capitals; ++i) name[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[i])));
  return "k" + name;
}

}  // namespace

std::string gradient_view_text(const std::string& view, ElementType type, int64_t components, int slots) {
  return "tsl::gradient(tsl::of_scalars(" + view + ", tsl::" + scalar_tag(type) + ", " + std::to_string(components) +
         "), " + std::to_string(slots) + ")";
}

}  // namespace torch_slang
