#include "functions/variant.h"

#include "operators/element_types.h"
#include "prelude/abi.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;

Access access_of(ElementwiseVariant::Gradient kind) {
  switch (kind) {
    case ElementwiseVariant::Summed: return Access::Summed;
    case ElementwiseVariant::RowSum: return Access::RowSum;
    case ElementwiseVariant::ColumnSum: return Access::ColumnSum;
    default: return Access::Dense;
  }
}

Access dense_access(const Leaf& leaf) {
  if (leaf.kind != LeafKind::Generated) return Access::Dense;
  return is_floating_point(leaf.element.type) ? Access::Random : Access::Place;
}

}  // namespace

bool may_be_few(const Leaf& leaf) { return leaf.is_whole && !leaf.is_written && leaf.gathering().may_sum_first; }

std::vector<PlaceDims> ElementwiseVariant::owned_dim_orders(size_t leaf) const {
  const std::string mark = ";" + std::to_string(leaf) + "=";
  const size_t at = own_.find(mark);
  if (at == std::string::npos) return {};
  const size_t begin = at + mark.size();
  return dim_orders_from_text(own_.substr(begin, own_.find(';', begin) - begin));
}

void ElementwiseVariant::set_owned_dim_orders(size_t leaf, const std::vector<PlaceDims>& orders) {
  if (!orders.empty()) own_ += ";" + std::to_string(leaf) + "=" + to_text(orders);
}

namespace {

// As if each generated place were a call_id() of a call with so many dimensions, 2 elements along each.
std::vector<GeneratedPlaces> usual_places(const ElementwiseSignature& op) {
  std::vector<GeneratedPlaces> all;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.kind != LeafKind::Generated || dense_access(leaf) != Access::Place) continue;
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
  ElementwiseVariant variant(leaves.size());
  variant.set_loop(/*is_tiled=*/false, /*lanes=*/1);
  const std::vector<GeneratedPlaces> places = usual_places(op);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    const bool has_gradient = backward && leaf.differentiable;
    if (!leaf.is_whole && (!leaf.is_output || !backward || has_gradient))
      variant.set(i, element_type(leaf.element, types), dense_access(leaf));
    if (has_gradient && leaf.is_whole && !leaf.is_written && !places.empty()) {
      const size_t rank = leaf.rank >= 0 ? leaf.rank : (places.front().slots.size() - 1) / kTslGeneratedWords;
      variant.set_owned_dim_orders(
          i, torch_slang::owned_dim_orders(places, static_cast<int64_t>(places.front().slots[0]),
                                           std::vector<int64_t>(rank, 2), component_count(leaf.element)));
    }
    if (has_gradient && !leaf.is_output)
      variant.set_gradient(i, !leaf.is_whole            ? ElementwiseVariant::Whole
                              : few && may_be_few(leaf) ? ElementwiseVariant::Few
                                                        : ElementwiseVariant::Gathered);
  }
  return variant;
}

MapLoop map_loop(const ElementwiseSignature& op, OpKind kind, const ElementwiseVariant& variant,
                 const std::vector<int64_t>& sizes) {
  MapLoop loop;
  loop.is_tiled = variant.is_tiled();
  loop.lanes = variant.lanes();
  const bool backward = kind == OpKind::Backward;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.is_whole) {
      loop.sees_tensors = true;
      continue;
    }
    const int components = static_cast<int>(component_count(leaf.element, sizes));
    if (variant.has(i)) {
      const int view = leaf.is_output && backward ? leaf.diff_view : leaf.primal_view;
      auto& views = backward || !leaf.is_output ? loop.inputs : loop.outputs;
      const bool is_value = op.function.has_values && leaf.is_output && !leaf.is_tangent;
      views.push_back({view, leaf.slot, variant.type(i), components, variant.access(i), is_value});
    }
    const ElementwiseVariant::Gradient kind_of_sum = variant.gradient(i);
    if (kind_of_sum == ElementwiseVariant::Unwanted) continue;
    const ElementType own = variant.type(i);
    if (kind_of_sum == ElementwiseVariant::Value) {
      loop.outputs.push_back({leaf.primal_view, -1, own, components, MapView::Access::Dense});
      continue;
    }
    const ElementType type = kind_of_sum == ElementwiseVariant::Whole ? own : summing_type(own);
    loop.outputs.push_back({leaf.diff_view, -1, type, components, access_of(kind_of_sum)});
  }
  return loop;
}

}  // namespace torch_slang
