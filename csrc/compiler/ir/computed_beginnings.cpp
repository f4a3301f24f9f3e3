#include "compiler/ir/computed_beginnings.h"

#include <map>
#include <set>

#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

constexpr size_t kFirstArgument = 3;  // of a loop, behind its first block, the one behind it and the one that goes on

class Counters {
 public:
  explicit Counters(ModuleEdits& module) : module_(module) { find_parameters(); }

  void hide_steps() {
    for (int64_t at = 0; at < count(); ++at) {
      if (module_.opcode(at) == kLoop) find_computed(at);
    }
    for (int64_t at = 0; at < count(); ++at) {
      if (module_.opcode(at) == kAdd || module_.opcode(at) == kSub) hide(at);
    }
  }

 private:
  int64_t count() const { return module_.size(); }

  // What a block is given from where the control flow comes: the variables of a loop, in its first block.
  void find_parameters() {
    const std::vector<int64_t> parents = module_.parents();
    for (int64_t at = 0; at < count(); ++at) {
      if (module_.opcode(at) == kParameter) parameters_[parents[static_cast<size_t>(at)]].push_back(at);
    }
  }

  bool is_whole_number(int64_t value) const {
    const int64_t type = module_.type(value);
    return type >= 0 && module_.opcode(type) >= kInt8Type && module_.opcode(type) <= kUInt64Type;
  }

  void find_computed(int64_t loop) {
    const auto found = parameters_.find(module_.operand(loop, 0));
    if (found == parameters_.end()) return;
    for (size_t i = 0; i < found->second.size() && kFirstArgument + i < module_.operands(loop); ++i) {
      const int64_t variable = found->second[i];
      const bool is_constant = module_.opcode(module_.operand(loop, kFirstArgument + i)) == kIntegerConstant;
      if (is_whole_number(variable) && !is_constant) computed_.insert(variable);
    }
  }

  void hide(int64_t at) {
    for (size_t i = 0; i < module_.operands(at); ++i) {
      const int64_t operand = module_.operand(at, i);
      if (computed_.count(operand) == 0) continue;
      const int64_t once = module_.insert(at, kComplement, module_.type(operand), {operand});
      module_.set_operand(at, i, module_.insert(at, kComplement, module_.type(operand), {once}));
    }
  }

  ModuleEdits& module_;
  std::map<int64_t, std::vector<int64_t>> parameters_;  // by block
  std::set<int64_t> computed_;  // whole numbers that loops carry and that begin with what is no constant
};

}  // namespace

void hide_steps_of_computed_beginnings(ModuleEdits& module) { Counters(module).hide_steps(); }

}  // namespace torch_slang
