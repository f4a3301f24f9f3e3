#include "kernels/facts.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "kernels/learn.h"
#include "kernels/shared_elements.h"
#include "kernels/specialize.h"

namespace torch_slang {
namespace {

// The marks of the kernel with statements' places, as if no gradient were known to be shared.
Marks marks_with_places(const KernelSignature& op, const KernelKey& key, const LoadedKernel& loaded, DeviceText& text) {
  KnownUse known;
  known.unused = loaded.unused;
  known.scratch_outputs = loaded.scratch_outputs;
  KernelKey alone = key;
  alone.threads = {};
  KernelSource source = specialize(op, alone, known);
  source.checks = Checks::None;
  source.polls = false;
  source.locate = true;
  text = source.text;
  return backend_for(key.device.type()).load(source, key.device)->marks();
}

std::vector<GradientFacts::Place> places_of(int view, const Marks& marks, const DeviceText& text) {
  const std::string word = c10::str("shares ", view, " at ");
  std::vector<GradientFacts::Place> places;
  for (auto mark = marks.lower_bound(word); mark != marks.end() && mark->rfind(word, 0) == 0; ++mark) {
    const size_t colon = mark->find(':');
    const size_t file = std::stoul(mark->substr(word.size(), colon - word.size()));
    places.push_back({file < text.files.size() ? text.files[file] : "", std::stoi(mark->substr(colon + 1))});
  }
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return places;
}

GradientFacts gradient_facts(const KernelSignature& op, const KernelKey& key, const LoadedKernel& loaded, int index) {
  const Leaf& leaf = op.function.leaves[index];
  GradientFacts facts;
  facts.argument = leaf.path;
  if (leaf.is_value()) {
    facts.kept = "parts";
    return facts;
  }
  if (is_unwanted(key, leaf)) {
    facts.kept = "unwanted";
    return facts;
  }
  if (loaded.own[index]) {
    facts.kept = "registers";
    return facts;
  }
  if (is_kept_shared(op, index, loaded.threads)) facts.summed_along = loaded.threads.axis;
  const GradientUse& use = loaded.gradients[index];
  const AccumulationRow& gathering = leaf.view().gathering();
  facts.kept = has_copies(gathering.memory) && !use.consumed ? gathering.kept
               : use.added || use.consumed                   ? "atomics"
                                                             : "memory";
  facts.why = why_not_own(op, index);
  if (facts.why.empty() && op.options.checks(key.device) == Checks::All) facts.why = "debug mode";
  if (facts.why.empty()) facts.why = "threads touch elements that are not their own";
  return facts;
}

}  // namespace

KernelFacts facts_of(const KernelSignature& op, const KernelKey& key, const LoadedKernel& loaded) {
  KernelFacts facts = common_facts(key, loaded);
  const KernelSource source = specialize(op, key, {});
  facts.meets = source.text.waves || source.text.barriers;
  facts.virtual_threads = loaded.threads.count;
  facts.axis = loaded.threads.axis;
  facts.lanes = loaded.threads.lanes;
  facts.has_bounds = !source.thread_bounds.empty();
  for (const Leaf& leaf : op.function.leaves) {
    if (!leaf.is_view()) continue;
    if ((key.strided & view_bit(leaf.place().primal_view)) != 0) facts.strided.push_back(leaf.path);
    if (leaf.diff_view() && (key.strided & view_bit(*leaf.diff_view())) != 0) {
      facts.strided.push_back("the gradient of " + leaf.path);
    }
  }
  if (key.kind != OpKind::Backward) return facts;
  std::vector<const Leaf*> leaves;  // of the gradients
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.differentiable || !leaf.has_gradient()) continue;
    leaves.push_back(&leaf);
    facts.gradients.push_back(gradient_facts(op, key, loaded, static_cast<int>(i)));
  }
  if (std::all_of(facts.gradients.begin(), facts.gradients.end(), [](const auto& g) { return g.why.empty(); })) {
    return facts;
  }
  DeviceText located;
  const Marks marks = marks_with_places(op, key, loaded, located);
  for (size_t i = 0; i < leaves.size(); ++i) {
    GradientFacts& gradient = facts.gradients[i];
    if (!gradient.why.empty()) gradient.places = places_of(*leaves[i]->diff_view(), marks, located);
  }
  return facts;
}

}  // namespace torch_slang
