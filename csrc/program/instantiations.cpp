#include "program/instantiations.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace torch_slang {
namespace {

using Types = std::vector<ElementType>;

std::vector<ElementType> usual_choice(const TypeParameter& parameter) {
  if (parameter.allowed.empty()) return {};
  return {usual_type(parameter)};
}

std::vector<ElementType> every_choice(const TypeParameter& parameter) { return parameter.allowed; }

bool is_operator(const Function& function) { return function.is_kernel() || function.torch_op; }

// Each combination of one type for each type parameter.
template <class Choice>
std::vector<Types> combinations(const Function& function, const Choice& choice) {
  std::vector<Types> all = {{}};
  for (const TypeParameter& parameter : function.type_parameters) {
    std::vector<Types> longer;
    for (const Types& types : all) {
      for (const ElementType type : choice(parameter)) {
        longer.push_back(types);
        longer.back().push_back(type);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Of those functions that `wanted` holds for.
template <class Choice, class Wanted>
std::vector<Instantiation> instantiations(const std::vector<Function>& functions, const Choice& choice,
                                          const Wanted& wanted) {
  std::vector<Instantiation> all;
  for (const Function& function : functions) {
    if (!function.refusal.empty() || function.size_count() > 0 || !wanted(function)) continue;
    for (const Types& types : combinations(function, choice)) {
      all.push_back({function.name, Direction::Forward, types, {}});
      if (function.has_backward) all.push_back({function.name, Direction::Backward, types, {}});
    }
  }
  return all;
}

}  // namespace

std::vector<Instantiation> usual_instantiations(const std::vector<Function>& functions) {
  return instantiations(functions, usual_choice, is_operator);
}

std::vector<Instantiation> plain_instantiations(const std::vector<Function>& functions) {
  return instantiations(functions, usual_choice, [](const Function& function) { return !function.is_kernel(); });
}

std::vector<Instantiation> plain_instantiations(const std::vector<Function>& functions, ElementType type) {
  const auto choice = [type](const TypeParameter& parameter) {
    const auto& allowed = parameter.allowed;
    return std::find(allowed.begin(), allowed.end(), type) != allowed.end() ? Types{type} : Types{};
  };
  return instantiations(functions, choice, [](const Function& function) { return !function.is_kernel(); });
}

std::vector<Instantiation> all_instantiations(const std::vector<Function>& functions) {
  return instantiations(functions, every_choice, is_operator);
}

ElementType usual_type(const TypeParameter& parameter) {
  const auto& allowed = parameter.allowed;
  const bool has_float = std::find(allowed.begin(), allowed.end(), ElementType::Float32) != allowed.end();
  return has_float ? ElementType::Float32 : allowed.front();
}

bool is_backward(Direction direction) {
  return direction == Direction::Backward || direction == Direction::TangentsBackward;
}

bool has_forward_derivative(Direction direction) {
  return direction == Direction::Jvp || direction == Direction::Tangents || direction == Direction::TangentsBackward;
}

Instantiation some_instantiation(const Function& function) {
  Instantiation one{function.name, Direction::Forward, {}, {}};
  for (const TypeParameter& parameter : function.type_parameters) one.types.push_back(usual_type(parameter));
  one.sizes.assign(function.size_count(), 4);
  return one;
}

bool has_bfloat16(const Function& function, const Instantiation& instantiation) {
  const auto is_one = [](ElementType type) { return type == ElementType::BFloat16; };
  return std::any_of(instantiation.types.begin(), instantiation.types.end(), is_one) ||
         std::any_of(function.leaves.begin(), function.leaves.end(),
                     [&](const Leaf& leaf) { return leaf.element.type_parameter < 0 && is_one(leaf.element.type); });
}

DeviceText empty_text(const Instantiation& instantiation) {
  DeviceText text;
  text.function = instantiation.function;
  text.direction = instantiation.direction;
  text.types = instantiation.types;
  text.sizes = instantiation.sizes;
  return text;
}

std::string describe_instantiation(const Instantiation& instantiation) {
  std::string text =
      c10::str("the ",
               instantiation.direction == Direction::Tangents           ? "forward derivative"
               : instantiation.direction == Direction::TangentsBackward ? "second derivative"
                                                                        : name_of(instantiation.direction),
               " of ", instantiation.function);
  for (size_t i = 0; i < instantiation.types.size(); ++i) {
    text += (i == 0 ? " for " : ", ") + std::string(name_of(instantiation.types[i]));
  }
  for (const int64_t size : instantiation.sizes) text += ", " + std::to_string(size);
  return text;
}

}  // namespace torch_slang
