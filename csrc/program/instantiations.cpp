#include "program/instantiations.h"

#include <algorithm>

namespace torch_slang {
namespace {

bool usual_types(const Function& function, std::vector<ElementType>& types) {
  for (const TypeParameter& parameter : function.type_parameters) {
    if (parameter.allowed.empty()) return false;
    const bool has_float = std::find(parameter.allowed.begin(), parameter.allowed.end(), ElementType::Float32) !=
                           parameter.allowed.end();
    types.push_back(has_float ? ElementType::Float32 : parameter.allowed.front());
  }
  return true;
}

}  // namespace

std::vector<Instantiation> usual_instantiations(const std::vector<Function>& functions) {
  std::vector<Instantiation> all;
  for (const Function& function : functions) {
    std::vector<ElementType> types;
    if (!function.is_kernel || !function.refusal.empty() || !usual_types(function, types)) continue;
    all.push_back({function.name, Direction::Forward, types});
    if (function.has_backward) all.push_back({function.name, Direction::Backward, types});
  }
  return all;
}

std::string describe_instantiation(const Instantiation& instantiation) {
  std::string text = std::string("the ") + name_of(instantiation.direction) + " of " + instantiation.function;
  for (size_t i = 0; i < instantiation.types.size(); ++i) {
    text += (i == 0 ? " for " : ", ") + std::string(name_of(instantiation.types[i]));
  }
  return text;
}

}  // namespace torch_slang
