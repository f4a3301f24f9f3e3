#include "module/explain.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "kernel/elementwise_variant.h"
#include "kernel/shared_elements.h"
#include "kernel/specialize.h"
#include "operator/tuner.h"

namespace torch_slang {
namespace {

// The marks of the kernel with statements' places, as if no gradient were known to be shared.
Marks marks_with_places(const Operator& op, const KernelKey& key, const LoadedKernel& loaded, DeviceText& text) {
  KnownUse known;
  known.unused = loaded.unused;
  known.scratch_outputs = loaded.scratch_outputs;
  KernelKey alone = key;
  alone.threads = {};
  KernelSource source = specialize(op, alone, known, op.options);
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

GradientFacts gradient_facts(const Operator& op, const KernelKey& key, const LoadedKernel& loaded, int index) {
  const Leaf& leaf = op.function.leaves[index];
  GradientFacts facts;
  facts.argument = leaf.path;
  if (leaf.kind == LeafKind::Value) {
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
  facts.kept = leaf.accumulation == Accumulation::Replicated && !use.taken ? "replicas"
               : leaf.accumulation == Accumulation::Recorded && !use.taken ? "records"
               : use.added || use.taken                                    ? "atomics"
                                                                           : "memory";
  facts.why = why_not_own(op, index);
  if (facts.why.empty() && op.options.checks(key.device) == Checks::All) facts.why = "debug mode";
  if (facts.why.empty()) facts.why = "threads touch elements that are not their own";
  return facts;
}

const char* how_kept(ElementwiseVariant::Gradient kind) {
  switch (kind) {
    case ElementwiseVariant::Whole: return "stored";
    case ElementwiseVariant::Wide: return "stored, then summed";
    case ElementwiseVariant::Summed: return "parts";
    case ElementwiseVariant::RowSum: return "parts of rows";
    case ElementwiseVariant::ColumnSum: return "parts of columns";
    default: return "unwanted";
  }
}

void add_loop_facts(const Operator& op, const KernelKey& key, KernelFacts& facts) {
  const ElementwiseVariant variant(key.variant);
  facts.loop = variant.is_tiled() ? "rows" : "elements";
  facts.lanes = variant.lanes();
  if (key.kind != OpKind::Backward) return;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.is_output || !leaf.differentiable) continue;
    GradientFacts& gradient = facts.gradients.emplace_back();
    gradient.argument = leaf.path;
    gradient.kept = how_kept(variant.gradient(i));
  }
}

KernelFacts kernel_facts(const Operator& op, const KernelKey& key, const LoadedKernel& loaded) {
  KernelFacts facts;
  facts.kind = name_of(key.kind);
  for (const ElementType type : key.types) facts.types.emplace_back(name_of(type));
  facts.device = key.device.str();
  facts.registers = loaded.kernel->registers();
  if (key.block[0] > 0) facts.block.assign(key.block.begin(), key.block.end());
  facts.independent = key.independent;
  facts.threads = loaded.last.threads.load();
  facts.bytes = loaded.last.bytes.load();
  facts.is_measured = loaded.last.is_measured.load();
  if (op.is_elementwise()) {
    add_loop_facts(op, key, facts);
    return facts;
  }
  const KernelSource source = specialize(op, key, {}, op.options);
  facts.meets = source.text.waves || source.text.barriers;
  facts.virtual_threads = loaded.threads.count;
  facts.axis = loaded.threads.axis;
  facts.lanes = loaded.threads.lanes;
  facts.has_bounds = !source.thread_bounds.empty();
  for (const Leaf& leaf : op.function.leaves) {
    if (leaf.kind != LeafKind::View) continue;
    if ((key.strided & view_bit(leaf.primal_view)) != 0) facts.strided.push_back(leaf.path);
    if (leaf.diff_view >= 0 && (key.strided & view_bit(leaf.diff_view)) != 0) {
      facts.strided.push_back("the gradient of " + leaf.path);
    }
  }
  if (key.kind != OpKind::Backward) return facts;
  std::vector<const Leaf*> leaves;  // of the gradients
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.differentiable || (leaf.diff_view < 0 && leaf.gradient_slot < 0)) continue;
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
    if (!gradient.why.empty()) gradient.places = places_of(leaves[i]->diff_view, marks, located);
  }
  return facts;
}

}  // namespace

std::vector<KernelFacts> explain(const Operator& op) {
  std::vector<KernelFacts> all;
  for (const auto& [key, loaded] : op.kernels.ready()) all.push_back(kernel_facts(op, key, *loaded));
  if (op.tuner == nullptr) return all;
  for (const auto& [values, variant] : op.tuner->in_use()) {
    for (KernelFacts& facts : explain(*variant)) {
      facts.values = values;
      all.push_back(std::move(facts));
    }
  }
  return all;
}

}  // namespace torch_slang
