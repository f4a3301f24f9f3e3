#include "compiler/ir/long_chains.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"
#include "compiler/ir/unrolled_calls.h"

namespace torch_slang {
namespace {

// Slang's visits take some microseconds each.
constexpr double kMostChains = 1000;
constexpr std::string_view kOfCore = "key__S4core";  // what one of core's interfaces requires

class LongChains {
 public:
  LongChains(ModuleEdits& module, LibraryCalls& library)
      : module_(module), parents_(module.parents()), library_(library), unrolled_(unrolled_calls(module)) {}

  void break_them() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      const int64_t parent = parents_[static_cast<size_t>(at)];
      if (parent < 0 || module_.opcode(parent) != kBlock) continue;
      Calls calls = calls_behind(at);
      if (is_element(at) && !add_chains_of(at, calls)) continue;
      if (calls.empty()) continue;
      const bool stores = is_store(module_, at);
      const int64_t made = stores ? variable_of(module_, module_.operand(at, 0)) : at;
      calls_[made] = stores ? united(calls, calls_[made]) : std::move(calls);
    }
    module_.redirect(kept_);
    for (const auto& [user, operand, call] : users_) module_.set_operand(user, operand, call);
  }

 private:
  using Calls = std::vector<int64_t>;  // in order

  static Calls united(const Calls& a, const Calls& b) {
    Calls all;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
    return all;
  }

  // The calls from whose results the instruction's operands were computed. Each store to a part of a variable counts for the whole
  // variable. What a callee changes through a pointer is not followed: Slang does not follow it either.
  Calls calls_behind(int64_t at) const {
    Calls all;
    for (size_t i = 0; i < module_.operands(at); ++i) {
      const int64_t operand = module_.operand(at, i);
      const bool is_place = module_.opcode(at) == kLoad;
      const auto found = calls_.find(is_place ? variable_of(module_, operand) : operand);
      if (found != calls_.end()) all = all.empty() ? found->second : united(all, found->second);
    }
    return all;
  }

  // Whole numbers have no derivative; the operators of core's interfaces are none of calls.
  bool is_element(int64_t at) const {
    if (module_.opcode(at) != kCall || is_constant_type(module_, module_.type(at))) return false;
    const int64_t callee = module_.operand(at, 0);
    return module_.opcode(callee) != kLookupWitness || !library_.has_name(module_.operand(callee, 1), kOfCore);
  }

  // False: the call is kept, and no chain goes on behind it.
  bool add_chains_of(int64_t call, Calls& calls) {
    double chains = 1;
    for (const int64_t one : calls) chains += chains_[one];
    if (const auto found = unrolled_.find(call); found != unrolled_.end()) chains *= std::exp2(found->second - 1);
    if (chains > kMostChains && can_keep(module_.type(call), call)) {
      kept_[call] = kept_value(call, behind(call), call);
      return false;
    }
    chains_[call] = chains;
    calls.push_back(call);
    return true;
  }

  // The next instruction of the call's block. There is one, since the last instruction of a block is a jump.
  int64_t behind(int64_t call) const {
    int64_t next = call + 1;
    while (parents_[static_cast<size_t>(next)] != parents_[static_cast<size_t>(call)]) ++next;
    return next;
  }

  // Of a struct each field, or none: a chain through one goes through the whole struct.
  bool can_keep(int64_t type, int64_t call) {
    if (library_.callee(LibraryCalls::Kept, type, call)) return true;
    const std::vector<int64_t> fields = fields_of(type);
    return !fields.empty() && std::all_of(fields.begin(), fields.end(),
                                          [&](int64_t field) { return can_keep(module_.operand(field, 1), call); });
  }

  int64_t kept_value(int64_t value, int64_t next, int64_t call) {
    const int64_t type = module_.type(value);
    if (const auto kept = library_.callee(LibraryCalls::Kept, type, call)) {
      const int64_t place = module_.insert(next, kVariable, kept->last_type, {});
      use(module_.insert(next, kCall, library_.no_type(), {kept->function, value, place}), 1, value);
      return module_.insert(next, kLoad, type, {place});
    }
    std::vector<int64_t> values;
    for (const int64_t one : fields_of(type)) {
      const int64_t field =
          module_.insert(next, kFieldValue, module_.operand(one, 1), {value, module_.operand(one, 0)});
      use(field, 0, value);
      values.push_back(kept_value(field, next, call));
    }
    return module_.insert(next, kMakeStruct, type, std::move(values));
  }

  // Of a struct.
  std::vector<int64_t> fields_of(int64_t type) const {
    std::vector<int64_t> fields;
    if (module_.opcode(type) != kStruct) return fields;
    for (const int64_t one : module_.children(type)) {
      if (module_.opcode(one) == kField) fields.push_back(one);
    }
    return fields;
  }

  void use(int64_t user, size_t operand, int64_t value) { users_.emplace_back(user, operand, value); }

  ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  LibraryCalls& library_;
  const std::map<int64_t, double> unrolled_;
  std::map<int64_t, Calls> calls_;  // by value or variable: the calls that it is made of, up to those that are kept
  std::map<int64_t, double> chains_;  // by call: the chains of calls that end in it
  std::map<int64_t, int64_t> kept_;  // by call: the value in its place
  std::vector<std::tuple<int64_t, size_t, int64_t>> users_;  // user, operand, call: uses of a kept call's own result
};

}  // namespace

void break_long_chains(ModuleEdits& module, LibraryCalls& library) { LongChains(module, library).break_them(); }

}  // namespace torch_slang
