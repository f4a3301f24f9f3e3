#include "compiler/ir/mixed_stores.h"

#include <map>
#include <optional>
#include <set>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"
#include "compiler/ir/written_places.h"

namespace torch_slang {
namespace {

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

// Functions with loops that Slang unrolls.
class Unrolled {
 public:
  explicit Unrolled(const ModuleEdits& module) : module_(module), parents_(module.parents()) {
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (is_unrolled_loop(module_, at)) functions_.insert(function_around(at));
    }
  }

  bool have(int64_t at) const { return functions_.count(function_around(at)) > 0; }

 private:
  int64_t function_around(int64_t at) const {
    while (at >= 0 && module_.opcode(at) != kFunction) at = parents_[static_cast<size_t>(at)];
    return at;
  }

  const ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  std::set<int64_t> functions_;
};

// By the array's variable.
std::map<int64_t, StoresToElements> stores_to_elements(const ModuleEdits& module, const WrittenPlaces& places) {
  const Unrolled unrolled(module);
  std::map<int64_t, StoresToElements> arrays;
  for (int64_t at = 0; at < module.size(); ++at) {
    for (const size_t which : places.written_operands(at)) {
      const std::vector<int64_t> steps = places.steps_to(module.operand(at, which));
      if (steps.empty() || module.opcode(steps[0]) != kElementAddress) continue;
      const int64_t variable = module.operand(steps[0], 0), index = module.operand(steps[0], 1);
      const int64_t array = type_at(module, variable);
      if (array < 0 || module.opcode(array) != kArrayType) continue;
      StoresToElements& stores = arrays[variable];
      (steps.size() == 1 && !places.stores_components(at) ? stores.to_whole : stores.to_parts) = true;
      const int64_t size = module.operand(array, 1);
      if (module.opcode(size) == kIntegerConstant) stores.size = module.value(size);
      if (module.opcode(index) == kIntegerConstant)
        stores.indices.insert(module.value(index));
      else
        stores.by_any_index = stores.by_any_index || unrolled.have(at);
    }
  }
  return arrays;
}

}  // namespace

void take_mixed_stores_apart(ModuleEdits& module) {
  WrittenPlaces places(module);
  const std::map<int64_t, StoresToElements> arrays = stores_to_elements(module, places);
  for (int64_t at = 0; at < module.size(); ++at) {
    const std::vector<size_t> written = places.written_operands(at);
    if (written.size() != 1) continue;
    const auto found = arrays.find(variable_of(module, module.operand(at, written[0])));
    if (found != arrays.end() && found->second.are_mixed()) places.take_apart(at);
  }
}

}  // namespace torch_slang
