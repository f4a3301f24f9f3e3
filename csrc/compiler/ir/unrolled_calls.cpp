#include "compiler/ir/unrolled_calls.h"

#include <set>
#include <vector>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

constexpr double kUnknown = 1e6;  // iterations, where Slang says none
constexpr size_t kFirstArgument = 3;  // of a loop, behind its first block, the one behind it and the one that goes on

class Unrolled {
 public:
  explicit Unrolled(const ModuleEdits& module) : module_(module), parents_(module.parents()) { find_given(); }

  std::map<int64_t, double> calls() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (is_unrolled_loop(module_, at)) count(module_.operand(at, 0), module_.operand(at, 1), iterations(at));
    }
    return std::move(calls_);
  }

 private:
  // What the parameters of blocks are given where the control flow comes from.
  void find_given() {
    std::map<int64_t, std::vector<int64_t>> parameters;
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) == kParameter) parameters[parents_[static_cast<size_t>(at)]].push_back(at);
    }
    for (int64_t at = 0; at < module_.size(); ++at) {
      if (module_.opcode(at) != kBranch && module_.opcode(at) != kLoop) continue;
      const size_t before = module_.opcode(at) == kLoop ? kFirstArgument : 1;
      const auto found = parameters.find(module_.operand(at, 0));
      if (found == parameters.end()) continue;
      for (size_t i = 0; i < found->second.size() && before + i < module_.operands(at); ++i)
        given_[found->second[i]].push_back(module_.operand(at, before + i));
    }
  }

  // What an instruction is made of.
  std::vector<int64_t> sources(int64_t at) const {
    if (const auto found = given_.find(at); found != given_.end()) return found->second;
    std::vector<int64_t> all;
    for (size_t i = is_store(module_, at) ? 1 : 0; i < module_.operands(at); ++i) all.push_back(module_.operand(at, i));
    return all;
  }

  double iterations(int64_t loop) const {
    for (const int64_t one : module_.children(loop)) {
      if (module_.opcode(one) == kMostIterations) return static_cast<double>(module_.value(module_.operand(one, 0)));
    }
    return kUnknown;
  }

  bool goes_back(int64_t at, int64_t first) const {
    return module_.opcode(at) == kBranch && module_.operand(at, 0) == first;
  }

  // The loop has the blocks from `first` up to `end`. Counts the calls on the way from the values that an iteration begins with to
  // those that it passes on.
  void count(int64_t first, int64_t end, double iterations) {
    const std::set<int64_t> taking = that_take(first, end);
    std::set<int64_t> gives;
    for (int64_t at = end - 1; at > first; --at) {
      if (!is_store(module_, at) && !goes_back(at, first) && gives.count(at) == 0) continue;
      for (const int64_t source : sources(at)) gives.insert(source);
      if (module_.opcode(at) == kCall && taking.count(at) > 0) calls_.emplace(at, 1).first->second *= iterations;
    }
  }

  // What is made of the parameters of the first block, or of variables that the loop changes.
  std::set<int64_t> that_take(int64_t first, int64_t end) const {
    std::set<int64_t> changed, taking;
    for (int64_t at = first; at < end; ++at) {
      if (is_store(module_, at)) changed.insert(variable_of(module_, module_.operand(at, 0)));
    }
    for (int64_t at = first; at < end; ++at) {
      bool takes = module_.opcode(at) == kParameter && parents_[static_cast<size_t>(at)] == first;
      for (const int64_t source : sources(at)) {
        const bool is_changed = module_.opcode(at) == kLoad && changed.count(variable_of(module_, source)) > 0;
        takes = takes || is_changed || taking.count(source) > 0;
      }
      if (takes) taking.insert(at);
    }
    return taking;
  }

  const ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  std::map<int64_t, std::vector<int64_t>> given_;  // by parameter
  std::map<int64_t, double> calls_;
};

}  // namespace

std::map<int64_t, double> unrolled_calls(const ModuleEdits& module) { return Unrolled(module).calls(); }

}  // namespace torch_slang
