#include <c10/util/Exception.h>

#include <algorithm>

#include "functions/operator.h"
#include "module/module.h"
#include "prelude/abi.h"

namespace torch_slang {
namespace {

bool can_be_generated(const Leaf& leaf) {
  const auto& shape = leaf.element.shape;
  const bool has_size = std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; });
  return has_size && leaf.element.type_parameter < 0 && !leaf.is_output && !leaf.is_whole();
}

// Of an instance: what results are is known then, though no argument may say it.
void settle_results(Function& instance) {
  const std::vector<int64_t>& sizes = instance.plain().given_sizes;
  const std::vector<std::optional<ElementType>>& types = instance.plain().given_types;
  if (sizes.empty() && types.empty()) return;
  for (Leaf& leaf : instance.leaves) {
    Element& element = leaf.element;
    if (!leaf.is_output) continue;
    for (int64_t& size : element.shape) {
      if (size < 0) size = std::max(size, sizes[-1 - size]);
    }
    if (element.type_parameter < 0 || !types[element.type_parameter]) continue;
    element.type = *types[element.type_parameter];
    element.type_parameter = -1;
  }
}

}  // namespace

std::string Module::generating(const std::string& name, const std::vector<int>& leaves) const {
  Function made = find(name)->signature().function;
  TORCH_CHECK(!made.is_kernel(), ns_, "::", name, ": nothing can generate the arguments of a kernel");
  made.plain().instance_of = made.text_name();
  made.name += "_generated";
  for (const int index : leaves) {
    Leaf& leaf = made.leaves.at(index);
    TORCH_CHECK(can_be_generated(leaf), ns_, "::", name, ": nothing can generate ", leaf.path);
    leaf.differentiable = false;
    leaf.no_gradient.clear();
    const BlockPlace& place = leaf.place();
    leaf.kind = GeneratedLeaf{{place.primal_view, place.diff_view, made.slot_count}};
    made.slot_count += 1 + kTslGeneratedWords * static_cast<int>(component_count(leaf.element));
    made.name += "_" + std::to_string(index);
  }
  settle_results(made);
  return add_function(std::move(made));
}

}  // namespace torch_slang
