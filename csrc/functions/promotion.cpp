#include "functions/promotion.h"

#include "operators/element_types.h"

namespace torch_slang {
namespace {

// The types of tensors with dimensions decide, as far as their category reaches.
class ResultType {
 public:
  void add(c10::ScalarType type, bool has_dimensions) {
    auto& mine = has_dimensions ? with_dimensions_ : without_;
    mine = mine ? c10::promoteTypes(*mine, type) : type;
  }
  std::optional<c10::ScalarType> get() const {
    if (!with_dimensions_ || !without_) return with_dimensions_ ? with_dimensions_ : without_;
    const bool heavier = category(*without_) > category(*with_dimensions_);
    return heavier ? c10::promoteTypes(*with_dimensions_, *without_) : *with_dimensions_;
  }

 private:
  static int category(c10::ScalarType type) { return c10::isFloatingType(type) ? 2 : type == c10::kBool ? 0 : 1; }
  std::optional<c10::ScalarType> with_dimensions_, without_;
};

bool is_unsigned(c10::ScalarType type) {
  return type == c10::kByte || type == c10::kUInt16 || type == c10::kUInt32 || type == c10::kUInt64;
}

}  // namespace

std::optional<c10::ScalarType> type_of_parameter(const Function& function, int parameter,
                                                 c10::ArrayRef<PromotedInput> inputs) {
  const auto& given = function.plain().given_types;
  if (!given.empty() && given[parameter]) return scalar_type(*given[parameter]);
  ResultType type;
  for (const auto& [leaf, own_type, has_dimensions] : inputs) {
    if (leaf.element.type_parameter != parameter) continue;
    if (leaf.is_whole()) return own_type;  // it is not converted, so the others follow it
    type.add(own_type, has_dimensions);
  }
  return type.get();
}

// PyTorch promotes no wide unsigned integers.
bool widens(c10::ScalarType from, c10::ScalarType to) {
  if (from == to || from == c10::kBool) return true;
  if (is_unsigned(from) && is_unsigned(to)) return c10::elementSize(from) < c10::elementSize(to);
  const auto is_wide = [](c10::ScalarType type) { return is_unsigned(type) && type != c10::kByte; };
  if (is_wide(to)) return false;
  if (is_wide(from)) return c10::isFloatingType(to) || c10::elementSize(from) < c10::elementSize(to);
  return c10::promoteTypes(from, to) == to;
}

}  // namespace torch_slang
