#include "program/program.h"

namespace torch_slang {

int64_t component_count(const Element& element) {
  int64_t count = 1;
  for (const int64_t size : element.shape) count *= size;
  return count;
}

}  // namespace torch_slang
