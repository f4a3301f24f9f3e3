#include "compiler/ir/nested_stores.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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
    note_types();
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (const auto which = written_operand(at)) take_apart(at, *which);
    }
  }

  void take_mixed_apart() {
    note_types();
    std::map<int64_t, StoresToElements> arrays;  // by variable
    for (int64_t at = 0; at < module_.size(); ++at) {
      for (const size_t which : written_operands(at)) note_store(at, steps_to(module_.operand(at, which)), arrays);
    }
    for (int64_t at = 0; at < module_.size(); ++at) {
      const auto which = written_operand(at);
      if (!which) continue;
      const auto found = arrays.find(variable_of(module_, module_.operand(at, *which)));
      if (found != arrays.end() && found->second.are_mixed()) take_apart(at, *which);
    }
  }

 private:
  // The stores to elements of an array.
  struct StoresToElements {
    bool to_whole = false, to_parts = false, by_any_index = false;
    std::set<int64_t> indices;  // the constant ones
    std::optional<int64_t> size;  // of the array, if it is known

    bool are_mixed() const {
      const bool may_be_all = by_any_index || !size || static_cast<int64_t>(indices.size()) >= *size;
      return to_whole && to_parts && may_be_all;
    }
  };

  void note_types() {
    parents_ = module_.parents();
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kStore) no_type_ = module_.type(at);
      if (module_.opcode(at) == kForcedUnroll) unrolled_.insert(function_around(at));
    }
  }

  int64_t function_around(int64_t at) const {
    while (at >= 0 && module_.opcode(at) != kFunction) at = parents_[static_cast<size_t>(at)];
    return at;
  }

  void note_store(int64_t at, const std::vector<int64_t>& steps, std::map<int64_t, StoresToElements>& arrays) const {
    if (steps.empty() || module_.opcode(steps[0]) != kElementAddress) return;
    const int64_t variable = module_.operand(steps[0], 0), index = module_.operand(steps[0], 1);
    const int64_t array = element_type(variable);
    if (array < 0 || module_.opcode(array) != kArrayType) return;
    StoresToElements& stores = arrays[variable];
    (steps.size() == 1 && !stores_components(at) ? stores.to_whole : stores.to_parts) = true;
    if (const int64_t size = module_.operand(array, 1); module_.opcode(size) == kIntegerConstant)
      stores.size = module_.value(size);
    if (module_.opcode(index) == kIntegerConstant) {
      stores.indices.insert(module_.value(index));
    } else {
      stores.by_any_index = stores.by_any_index || unrolled_.count(function_around(at)) > 0;
    }
  }

  // A store to components, `v[i].zx = ...`, has the address of the whole vector.
  bool stores_components(int64_t at) const { return module_.opcode(at) == kSwizzledStore; }
  bool is_step(int64_t at) const {
    return module_.opcode(at) == kElementAddress || module_.opcode(at) == kFieldAddress;
  }
  int32_t type_of(int64_t value) const { return module_.type(value) < 0 ? 0 : module_.opcode(module_.type(value)); }
  bool is_changed_by_callee(int64_t value) const {
    return type_of(value) == kOutParameter || type_of(value) == kInOutParameter;
  }

  // The operands through which an instruction changes memory.
  std::vector<size_t> written_operands(int64_t at) const {
    if (is_store(module_, at)) return {0};
    std::vector<size_t> found;
    for (size_t i = 1; module_.opcode(at) == kCall && i < module_.operands(at); ++i) {
      if (type_of(module_.operand(at, i)) == kPointer || is_changed_by_callee(module_.operand(at, i)))
        found.push_back(i);
    }
    return found;
  }

  // None where a call is given several places, which may lie in one element.
  std::optional<size_t> written_operand(int64_t at) const {
    const std::vector<size_t> written = written_operands(at);
    return written.size() == 1 ? std::optional(written[0]) : std::nullopt;
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
      const bool is_whole = step == steps.back() && !stores_components(at);
      if (is_whole || module_.opcode(step) != kElementAddress || type_of(step) != kPointer) continue;
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
  std::vector<int64_t> parents_;
  std::set<int64_t> unrolled_;  // functions with loops whose indices become constants
};

}  // namespace

void take_nested_stores_apart(ModuleEdits& module) { NestedStores(module).take_apart(); }

void take_mixed_stores_apart(ModuleEdits& module) { NestedStores(module).take_mixed_apart(); }

}  // namespace torch_slang
