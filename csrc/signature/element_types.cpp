#include "signature/element_types.h"

namespace torch_slang {

ElementType element_type(const Element& element, const std::vector<ElementType>& types) {
  return element.type_parameter < 0 ? element.type : types.at(element.type_parameter);
}

ElementType summing_type(ElementType type) {
  return type == ElementType::Float16 || type == ElementType::BFloat16 ? ElementType::Float32 : type;
}

}  // namespace torch_slang
