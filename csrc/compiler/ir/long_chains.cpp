#include "compiler/ir/long_chains.h"

#include <map>
#include <set>

#include "compiler/ir/library_calls.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// Slang's visits take some microseconds each.
constexpr double kMostChains = 1000;

class LongChains {
 public:
  explicit LongChains(ModuleEdits& module) : module_(module), parents_(module.parents()), library_(module) {}

  void break_them() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      const int64_t parent = parents_[static_cast<size_t>(at)];
      if (parent < 0 || module_.opcode(parent) != kBlock) continue;
      std::set<int64_t> calls = calls_behind(at);
      if (module_.opcode(at) == kCall) {
        double chains = 1;
        for (const int64_t call : calls) chains += chains_[call];
        if (chains > kMostChains && keep(at)) continue;
        chains_[at] = chains;
        calls.insert(at);
      }
      if (!calls.empty()) calls_[at] = std::move(calls);
    }
    module_.redirect(kept_);
    for (const auto& [value, load] : kept_) module_.set_operand(calls_of_kept_.at(value), 1, value);
  }

 private:
  // The calls that the instruction's operands are made of.
  std::set<int64_t> calls_behind(int64_t at) const {
    std::set<int64_t> all;
    for (size_t i = 0; i < module_.operands(at); ++i) {
      const auto found = calls_.find(module_.operand(at, i));
      if (found != calls_.end()) all.insert(found->second.begin(), found->second.end());
    }
    return all;
  }

  bool keep(int64_t call) {
    const int64_t type = module_.type(call);
    const auto kept = library_.callee(LibraryCalls::Kept, type, call);
    if (!kept) return false;
    const int64_t next = behind(call);
    const int64_t place = module_.insert(next, kVariable, kept->last_type, {});
    calls_of_kept_[call] = module_.insert(next, kCall, library_.no_type(), {kept->function, call, place});
    kept_[call] = module_.insert(next, kLoad, type, {place});
    return true;
  }

  // A block ends by what is no call.
  int64_t behind(int64_t call) const {
    int64_t next = call + 1;
    while (parents_[static_cast<size_t>(next)] != parents_[static_cast<size_t>(call)]) ++next;
    return next;
  }

  ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  LibraryCalls library_;
  std::map<int64_t, std::set<int64_t>> calls_;  // by value: the calls that it is made of, up to those that are kept
  std::map<int64_t, double> chains_;  // by call: the chains of calls that end in it
  std::map<int64_t, int64_t> kept_, calls_of_kept_;  // by call: the load, and the call of `__kept`
};

}  // namespace

void break_long_chains(ModuleEdits& module) { LongChains(module).break_them(); }

}  // namespace torch_slang
