#include "compiler/ir/loop_copies.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "compiler/ir/annotations.h"
#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/library_calls.h"
#include "compiler/ir/opcodes.h"
#include "compiler/ir/written_places.h"

namespace torch_slang {
namespace {

constexpr size_t kAnyDepth = std::numeric_limits<size_t>::max();

class LoopCopies {
 public:
  explicit LoopCopies(ModuleEdits& module)
      : module_(module), places_(module), annotations_(module), library_(module) {
    for (const int64_t function : annotations_.differentiated()) {
      if (module_.opcode(function) == kFunction) renew_in(function);
    }
  }

 private:
  void renew_in(int64_t function) {
    const std::vector<int64_t> body = body_of(module_, function);
    const bool is_inlined = has_child(function, kForceInline) || has_child(function, kForceInlineEarly);
    std::map<int64_t, size_t> depths;  // by variable: how many steps away the innermost part is that is changed
    for (const int64_t at : body) {
      for (const size_t which : places_.written_operands(at)) {
        size_t& depth = depths[variable_of(module_, module_.operand(at, which))];
        depth = std::max(depth, depth_of_change(at, which));
      }
    }
    for (const int64_t at : body) {
      if (!is_store(module_, at) || !(is_inlined || is_looped(function, at))) continue;
      const int64_t place = module_.operand(at, 0), variable = variable_of(module_, place);
      const bool is_given = is_inlined && module_.opcode(variable) == kParameter;
      if (is_given || depths[variable] > steps(place)) renew(at);
    }
  }

  bool has_child(int64_t at, int32_t opcode) const {
    return std::ranges::any_of(module_.children(at), [&](int64_t one) { return module_.opcode(one) == opcode; });
  }

  size_t steps(int64_t place) const {
    size_t count = 0;
    for (; place != variable_of(module_, place); place = module_.operand(place, 0)) ++count;
    return count;
  }

  size_t depth_of_change(int64_t at, size_t which) const {
    if (!is_store(module_, at)) return kAnyDepth;  // by what is called
    return steps(module_.operand(at, which)) + (places_.stores_components(at) ? 1 : 0);
  }

  bool is_looped(int64_t function, int64_t at) {
    auto [found, is_new] = loops_.try_emplace(function);
    if (is_new) {
      for (const int64_t one : body_of(module_, function)) {
        if (module_.opcode(one) == kLoop && !has_child(one, kForcedUnroll)) found->second.push_back(one);
      }
    }
    return std::ranges::any_of(found->second, [&](int64_t loop) {
      return module_.operand(loop, 0) < at && at < module_.operand(loop, 1);
    });
  }

  void renew(int64_t store) {
    const int64_t value = module_.operand(store, 1), type = module_.type(value);
    const int64_t witness = is_number(type) ? -1 : annotations_.witness_of(type);
    if (witness < 0) return;
    const auto copy = library_.copy_callee(type, witness, store);
    module_.set_operand(store, 1, module_.insert(store, kCall, type, {copy.function, value}));
  }

  bool is_number(int64_t type) const { return module_.opcode(type) >= kHalf && module_.opcode(type) <= kDouble; }

  ModuleEdits& module_;
  const WrittenPlaces places_;
  const Annotations annotations_;
  LibraryCalls library_;
  std::map<int64_t, std::vector<int64_t>> loops_;  // by function
};

}  // namespace

void renew_copies_in_loops(ModuleEdits& module) { LoopCopies{module}; }

}  // namespace torch_slang
