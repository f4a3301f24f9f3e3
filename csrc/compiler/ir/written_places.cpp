#include "compiler/ir/written_places.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {

WrittenPlaces::WrittenPlaces(ModuleEdits& module) : module_(module) {
  for (int64_t at = 0; at < module_.size() && no_type_ < 0; ++at) {
    if (module_.opcode(at) == kStore) no_type_ = module_.type(at);
  }
}

std::vector<size_t> WrittenPlaces::written_operands(int64_t at) const {
  if (is_store(module_, at)) return {0};
  std::vector<size_t> found;
  for (size_t i = 1; module_.opcode(at) == kCall && i < module_.operands(at); ++i) {
    const int64_t argument = module_.operand(at, i);
    if (type_of(argument) == kPointer || is_changed_by_callee(argument)) found.push_back(i);
  }
  return found;
}

std::vector<int64_t> WrittenPlaces::steps_to(int64_t place) const {
  std::vector<int64_t> steps;
  while (module_.opcode(place) == kElementAddress || module_.opcode(place) == kFieldAddress) {
    steps.push_back(place);
    place = module_.operand(place, 0);
  }
  const bool is_parameter = module_.opcode(place) == kParameter && is_changed_by_callee(place);
  if (module_.opcode(place) != kVariable && !is_parameter) return {};
  std::reverse(steps.begin(), steps.end());
  return steps;
}

bool WrittenPlaces::stores_components(int64_t at) const { return module_.opcode(at) == kSwizzledStore; }

void WrittenPlaces::take_apart(int64_t at) {
  const std::vector<size_t> written = written_operands(at);
  if (written.size() != 1) return;
  const std::vector<int64_t> steps = steps_to(module_.operand(at, written[0]));
  std::vector<std::pair<int64_t, int64_t>> copies;  // where an element lies, and its copy
  int64_t place = -1;  // -1: the addresses are as they were
  for (const int64_t step : steps) {
    if (place >= 0)
      place = module_.insert(at, module_.opcode(step), module_.type(step), {place, module_.operand(step, 1)});
    const bool is_whole = step == steps.back() && !stores_components(at);
    if (is_whole || module_.opcode(step) != kElementAddress || type_of(step) != kPointer) continue;
    const int64_t element = place >= 0 ? place : step;
    place = module_.insert(at, kVariable, module_.type(step), {});
    module_.insert(at, kStore, no_type_, {place, load(at, element)});
    copies.emplace_back(element, place);
  }
  if (copies.empty()) return;
  module_.set_operand(at, written[0], place);
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    module_.insert(at + 1, kStore, no_type_, {copy->first, load(at + 1, copy->second)});
  }
}

int32_t WrittenPlaces::type_of(int64_t value) const {
  return module_.type(value) < 0 ? 0 : module_.opcode(module_.type(value));
}

bool WrittenPlaces::is_changed_by_callee(int64_t value) const {
  return type_of(value) == kOutParameter || type_of(value) == kInOutParameter;
}

int64_t WrittenPlaces::load(int64_t at, int64_t place) {
  return module_.insert(at, kLoad, type_at(module_, place), {place});
}

int64_t type_at(const ModuleEdits& module, int64_t address) { return module.operand(module.type(address), 0); }

}  // namespace torch_slang
