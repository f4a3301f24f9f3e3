#include "kernel/elementwise_variant.h"

#include "signature/element_types.h"

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

}  // namespace

MapLoop map_loop(const ElementwiseSignature& op, OpKind kind, const ElementwiseVariant& variant,
                 const std::vector<int64_t>& sizes) {
  MapLoop loop;
  loop.is_tiled = variant.is_tiled();
  loop.lanes = variant.lanes();
  const bool backward = kind == OpKind::Backward;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    const int components = static_cast<int>(component_count(leaf.element, sizes));
    if (variant.has(i)) {
      const int view = leaf.is_output && backward ? leaf.diff_view : leaf.primal_view;
      auto& views = backward || !leaf.is_output ? loop.inputs : loop.outputs;
      views.push_back({view, leaf.slot, variant.type(i), components, variant.access(i)});
    }
    const ElementwiseVariant::Gradient kind_of_sum = variant.gradient(i);
    if (kind_of_sum == ElementwiseVariant::Unwanted) continue;
    const ElementType own = variant.type(i);
    const ElementType type = kind_of_sum == ElementwiseVariant::Whole ? own : summing_type(own);
    loop.outputs.push_back({leaf.diff_view, -1, type, components, access_of(kind_of_sum)});
  }
  return loop;
}

}  // namespace torch_slang
