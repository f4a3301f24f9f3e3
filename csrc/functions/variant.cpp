#include "functions/variant.h"

#include "operators/element_types.h"
#include "prelude/abi.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;

using Gradient = ElementwiseVariant::Gradient;

Access access_of(Gradient kind) {
  switch (kind) {
    case Gradient::Summed: return Access::Summed;
    case Gradient::RowSum: return Access::RowSum;
    case Gradient::ColumnSum: return Access::ColumnSum;
    default: return Access::Dense;
  }
}

Access dense_access(const Leaf& leaf) {
  if (!leaf.is_generated()) return Access::Dense;
  return is_floating_point(leaf.element.type) ? Access::Random : Access::Place;
}

}  // namespace

bool may_be_few(const Leaf& leaf) {
  return leaf.is_whole() && !leaf.is_written() && leaf.view().gathering().may_sum_first;
}

namespace {

// As if each generated place were a call_id() of a call with so many dimensions, 2 elements along each.
std::vector<GeneratedPlaces> usual_places(const ElementwiseSignature& op) {
  std::vector<GeneratedPlaces> all;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (!leaf.is_generated() || dense_access(leaf) != Access::Place) continue;
    const auto components = static_cast<unsigned>(component_count(leaf.element));
    GeneratedPlaces& places = all.emplace_back(GeneratedPlaces{static_cast<int>(i), leaf.element.type, {}});
    places.slots = {uint64_t{1} << components};
    for (unsigned c = 0; c < components; ++c) places.slots.insert(places.slots.end(), {uint64_t{1} << c, 2, 0, 1});
  }
  return all;
}

}  // namespace

ElementwiseVariant dense_variant(const ElementwiseSignature& op, OpKind kind, const std::vector<ElementType>& types,
                                 bool few) {
  const auto& leaves = op.function.leaves;
  const bool backward = kind == OpKind::Backward;
  ElementwiseVariant variant;
  variant.leaves.resize(leaves.size());
  const std::vector<GeneratedPlaces> places = usual_places(op);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    const bool has_gradient = backward && leaf.differentiable;
    if (!leaf.is_whole() && (!leaf.is_output || !backward || has_gradient))
      variant.set(i, element_type(leaf.element, types), dense_access(leaf));
    if (has_gradient && leaf.is_whole() && !leaf.is_written() && !places.empty()) {
      const size_t rank = leaf.view().rank ? *leaf.view().rank : (places.front().slots.size() - 1) / kTslGeneratedWords;
      auto orders = owned_dim_orders(places, static_cast<int64_t>(places.front().slots[0]),
                                     std::vector<int64_t>(rank, 2), component_count(leaf.element));
      if (!orders.empty()) variant.owned.emplace_back(i, std::move(orders));
    }
    if (has_gradient && !leaf.is_output)
      variant.leaves[i].gradient = !leaf.is_whole()          ? Gradient::Whole
                                   : few && may_be_few(leaf) ? Gradient::Few
                                                             : Gradient::Gathered;
  }
  return variant;
}

MapLoop map_loop(const ElementwiseSignature& op, OpKind kind, const ElementwiseVariant& variant,
                 const std::vector<int64_t>& sizes) {
  MapLoop loop;
  loop.is_tiled = variant.is_tiled;
  loop.lanes = variant.lanes;
  const bool backward = kind == OpKind::Backward;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.is_whole()) {
      loop.sees_tensors = true;
      continue;
    }
    const int components = static_cast<int>(component_count(leaf.element, sizes));
    const auto& [own, access, gradient] = variant.leaves[i];
    if (access) {
      const int view = leaf.is_output && backward ? *leaf.diff_view() : leaf.place().primal_view;
      auto& views = backward || !leaf.is_output ? loop.inputs : loop.outputs;
      const bool is_value = op.function.has_values && leaf.is_output && !leaf.is_tangent;
      views.push_back({view, leaf.place().slot.value_or(-1), own, components, *access, is_value});
    }
    if (gradient == Gradient::Unwanted) continue;
    if (gradient == Gradient::Value) {
      loop.outputs.push_back({leaf.place().primal_view, -1, own, components, MapView::Access::Dense});
      continue;
    }
    const ElementType type = gradient == Gradient::Whole ? own : summing_type(own);
    loop.outputs.push_back({*leaf.diff_view(), -1, type, components, access_of(gradient)});
  }
  return loop;
}

}  // namespace torch_slang
