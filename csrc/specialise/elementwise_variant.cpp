#include "specialise/elementwise_variant.h"

namespace torch_slang {

const std::vector<PlaceDims>& ElementwiseVariant::owned_dim_orders(size_t leaf) const {
  static const std::vector<PlaceDims> none;
  for (const auto& [owner, orders] : owned) {
    if (owner == leaf) return orders;
  }
  return none;
}

}  // namespace torch_slang
