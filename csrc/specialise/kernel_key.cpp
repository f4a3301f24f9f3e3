#include "specialise/kernel_key.h"

namespace torch_slang {

bool KernelKey::operator==(const KernelKey& other) const {
  return kind == other.kind && strided == other.strided && threads == other.threads && unwanted == other.unwanted &&
         independent == other.independent && device == other.device && types == other.types && sizes == other.sizes &&
         variant == other.variant && block == other.block && sample_dims == other.sample_dims && wraps == other.wraps;
}

bool is_unwanted(const KernelKey& key, const Leaf& leaf) {
  return leaf.diff_view >= 0 && leaf.diff_view < 63 && (key.unwanted & view_bit(leaf.diff_view)) != 0;
}

}  // namespace torch_slang
