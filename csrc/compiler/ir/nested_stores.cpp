#include "compiler/ir/nested_stores.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

class NestedStores {
 public:
  explicit NestedStores(ModuleEdits& module) : module_(module) {}

  void take_apart() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kStore) no_type_ = module_.type(at);
    }
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (const auto which = written_operand(at)) take_apart(at, *which);
    }
  }

 private:
  bool is_step(int64_t at) const {
    return module_.opcode(at) == kElementAddress || module_.opcode(at) == kFieldAddress;
  }
  int32_t type_of(int64_t value) const { return module_.type(value) < 0 ? 0 : module_.opcode(module_.type(value)); }
  bool is_changed_by_callee(int64_t value) const {
    return type_of(value) == kOutParameter || type_of(value) == kInOutParameter;
  }

  // The operand through which an instruction changes memory. None where a call is given several places, which may lie in one element.
  std::optional<size_t> written_operand(int64_t at) const {
    const int32_t opcode = module_.opcode(at);
    if (is_store(module_, at)) return 0;
    if (opcode != kCall) return std::nullopt;
    std::optional<size_t> found;
    for (size_t i = 1; i < module_.operands(at); ++i) {
      if (type_of(module_.operand(at, i)) != kPointer && !is_changed_by_callee(module_.operand(at, i))) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }

  // The addresses from a variable to a place in it; empty where the place is in no variable.
  std::vector<int64_t> steps_to(int64_t place) const {
    std::vector<int64_t> steps;
    for (; is_step(place); place = module_.operand(place, 0)) steps.push_back(place);
    const bool is_parameter = module_.opcode(place) == kParameter && is_changed_by_callee(place);
    if (module_.opcode(place) != kVariable && !is_parameter) return {};
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  void take_apart(int64_t at, size_t which) {
    const std::vector<int64_t> steps = steps_to(module_.operand(at, which));
    std::vector<std::pair<int64_t, int64_t>> copies;  // where an element lies, and its copy
    int64_t place = -1;  // -1: the addresses are as they were
    for (const int64_t step : steps) {
      if (place >= 0) {
        place = module_.insert(at, module_.opcode(step), module_.type(step), {place, module_.operand(step, 1)});
      }
      if (step == steps.back() || module_.opcode(step) != kElementAddress || type_of(step) != kPointer) continue;
      const int64_t element = place >= 0 ? place : step;
      place = module_.insert(at, kVariable, module_.type(step), {});
      module_.insert(at, kStore, no_type_, {place, load(at, element)});
      copies.emplace_back(element, place);
    }
    if (copies.empty()) return;
    module_.set_operand(at, which, place);
    for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
      module_.insert(at + 1, kStore, no_type_, {copy->first, load(at + 1, copy->second)});
    }
  }

  int64_t load(int64_t at, int64_t place) { return module_.insert(at, kLoad, element_type(place), {place}); }
  int64_t element_type(int64_t place) const { return module_.operand(module_.type(place), 0); }

  ModuleEdits& module_;
  int64_t no_type_ = -1;  // of stores
};

}  // namespace

void take_nested_stores_apart(ModuleEdits& module) { NestedStores(module).take_apart(); }

}  // namespace torch_slang
