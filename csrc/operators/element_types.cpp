#include "operators/element_types.h"

namespace torch_slang {

ElementType element_type(const Element& element, const std::vector<ElementType>& types) {
  return element.type_parameter < 0 ? element.type : types.at(element.type_parameter);
}

int64_t component_count(const Element& element, const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : element.shape) count *= size < 0 ? sizes[-1 - size] : size;
  return count;
}

ElementType summing_type(ElementType type) {
  return type == ElementType::Float16 || type == ElementType::BFloat16 ? ElementType::Float32 : type;
}

}  // namespace torch_slang
