#include "program/program.h"

#include <algorithm>

namespace torch_slang {

bool sees_tensors(const Function& function) {
  return std::any_of(function.leaves.begin(), function.leaves.end(), [](const Leaf& leaf) { return leaf.is_whole(); });
}

int64_t component_count(const Element& element) {
  int64_t count = 1;
  for (const int64_t size : element.shape) count *= size;
  return count;
}

}  // namespace torch_slang
