#include "compiler/ir/loop_copies.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"
#include "compiler/ir/written_places.h"

namespace torch_slang {
namespace {

constexpr size_t kAnyDepth = std::numeric_limits<size_t>::max();

class LoopCopies {
 public:
  LoopCopies(ModuleEdits& module, const Annotations& annotations, LibraryCalls& library)
      : module_(module), places_(module), annotations_(annotations), library_(library) {
    for (const int64_t function : annotations_.differentiated()) {
      if (module_.opcode(function) == kFunction) renew_in(function);
    }
  }

 private:
  void renew_in(int64_t function) {
    const std::vector<int64_t> body = body_of(module_, function);
    const bool is_inlined =
        has_child(module_, function, kForceInline) || has_child(module_, function, kForceInlineEarly);
    find_loops(body);
    std::map<int64_t, size_t> depths;  // by variable: how many steps away the innermost part is that is changed
    for (const int64_t at : body) {
      for (const size_t which : places_.written_operands(at)) {
        size_t& depth = depths[variable_of(module_, module_.operand(at, which))];
        depth = std::max(depth, depth_of_change(at, which));
      }
    }
    for (size_t i = 0; i < body.size(); ++i) {
      const int64_t at = body[i];
      if (!is_inlined && !is_in(loops_, at)) continue;
      if (module_.opcode(at) == kVariable && depths[at] > 0 && !is_stored_first(body, i)) begin(body, i);
      if (!is_store(module_, at)) continue;
      const int64_t place = module_.operand(at, 0), variable = variable_of(module_, place);
      const bool is_given = is_inlined && module_.opcode(variable) == kParameter;
      const bool may_change = (is_given || depths[variable] > steps(place)) && !stores_number(at);
      if (may_change || is_to_known_element(at)) renew(at);
    }
  }

  size_t steps(int64_t place) const { return places_.steps_to(place).size(); }

  size_t depth_of_change(int64_t at, size_t which) const {
    if (!is_store(module_, at)) return kAnyDepth;  // a callee may change any part of its argument
    return steps(module_.operand(at, which)) + (places_.stores_components(at) ? 1 : 0);
  }

  void find_loops(const std::vector<int64_t>& body) {
    loops_.clear();
    unrolled_.clear();
    for (const int64_t at : body) {
      if (module_.opcode(at) == kLoop) (is_unrolled_loop(module_, at) ? unrolled_ : loops_).push_back(at);
    }
  }

  // A loop's blocks stand from the first, its operand 0, to before the one that follows the loop, its operand 1.
  bool is_in(const std::vector<int64_t>& loops, int64_t at) const {
    return std::ranges::any_of(
        loops, [&](int64_t loop) { return module_.operand(loop, 0) < at && at < module_.operand(loop, 1); });
  }

  // Whether the first use of a variable assigns all of it.
  bool is_stored_first(const std::vector<int64_t>& body, size_t variable) const {
    for (size_t i = variable + 1; i < body.size(); ++i) {
      for (size_t which = 0; which < module_.operands(body[i]); ++which) {
        if (module_.operand(body[i], which) == body[variable]) return module_.opcode(body[i]) == kStore && which == 0;
      }
    }
    return true;
  }

  // Assigns zeros to a variable that is put together from parts.
  void begin(const std::vector<int64_t>& body, size_t variable) {
    const int64_t next = body[variable + 1], type = type_at(module_, body[variable]);
    if (!can_copy(type)) return;
    const int64_t zeros = module_.insert(next, kDefaultConstruct, type, {});
    module_.insert(next, kStore, library_.no_type(), {body[variable], copy(zeros, type, next)});
  }

  void renew(int64_t store) {
    const int64_t value = module_.operand(store, 1), type = module_.type(value);
    if (can_copy(type)) module_.set_operand(store, 1, copy(value, type, store));
  }

  bool can_copy(int64_t type) const { return annotations_.witness_of(type) >= 0; }

  // Whether Slang knows which element of an array the store assigns. If all elements are assigned so, it makes a new array of the values.
  bool is_to_known_element(int64_t store) const {
    const int64_t place = module_.operand(store, 0);
    if (module_.opcode(place) != kElementAddress) return false;
    const bool is_known = module_.opcode(module_.operand(place, 1)) == kIntegerConstant || is_in(unrolled_, store);
    return is_known && module_.opcode(type_at(module_, module_.operand(place, 0))) == kArrayType;
  }

  int64_t copy(int64_t value, int64_t type, int64_t at) {
    const auto callee = library_.copy_callee(type, annotations_.witness_of(type), at);
    return module_.insert(at, kCall, type, {callee.function, value});
  }

  bool stores_number(int64_t store) const {
    const int32_t opcode = module_.opcode(module_.type(module_.operand(store, 1)));
    return opcode >= kHalf && opcode <= kDouble;
  }

  ModuleEdits& module_;
  const WrittenPlaces places_;
  const Annotations& annotations_;
  LibraryCalls& library_;
  std::vector<int64_t> loops_, unrolled_;  // of the function that is looked at
};

}  // namespace

void renew_copies_in_loops(ModuleEdits& module, const Annotations& annotations, LibraryCalls& library) {
  LoopCopies{module, annotations, library};
}

}  // namespace torch_slang
