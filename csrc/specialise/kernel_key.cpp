#include "specialise/kernel_key.h"

namespace torch_slang {

bool is_unwanted(const KernelKey& key, const Leaf& leaf) {
  return leaf.diff_view() && *leaf.diff_view() < 63 && (key.unwanted & view_bit(*leaf.diff_view())) != 0;
}

}  // namespace torch_slang
