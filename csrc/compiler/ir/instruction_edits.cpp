#include "compiler/ir/instruction_edits.h"

#include <c10/util/Exception.h>

#include <utility>

namespace torch_slang {

InstructionEdits::InstructionEdits(InstructionTable table) : table_(std::move(table)) {
  size_t begin = 0;
  for (const auto& instruction : table_.instructions) {
    begin_.push_back(begin);
    begin += 1 + instruction.operands;
  }
}

int64_t InstructionEdits::insert(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands) {
  const int64_t number = static_cast<int64_t>(size() + inserted_.size());
  operands.insert(operands.begin(), type);
  inserted_.push_back({opcode, table_.locations[static_cast<size_t>(at)], std::move(operands)});
  in_front_[at].push_back(number);
  return number;
}

void InstructionEdits::erase(int64_t at) {
  TORCH_INTERNAL_ASSERT(table_.children[static_cast<size_t>(at)] == 0);
  erased_.insert(at);
}

std::vector<int64_t> InstructionEdits::parents() const {
  std::vector<int64_t> all(size(), -1);
  std::vector<std::pair<int64_t, int64_t>> open;  // an instruction, and how many of its children are to come
  for (size_t i = 0; i < size(); ++i) {
    while (!open.empty() && open.back().second == 0) open.pop_back();
    if (!open.empty()) {
      all[i] = open.back().first;
      --open.back().second;
    }
    open.emplace_back(static_cast<int64_t>(i), table_.children[i]);
  }
  return all;
}

InstructionTable InstructionEdits::applied() const {
  InstructionTable made;
  std::vector<int64_t> numbers(size() + inserted_.size(), -1);  // the new ones
  std::vector<int64_t> children = table_.children;
  const std::vector<int64_t> parent = parents();
  const auto append = [&](int64_t old, InstructionTable::Instruction instruction, int64_t count, uint32_t location,
                          const int64_t* references) {
    numbers[static_cast<size_t>(old)] = static_cast<int64_t>(made.instructions.size());
    made.instructions.push_back(instruction);
    made.children.push_back(count);
    made.locations.push_back(location);
    made.references.insert(made.references.end(), references, references + 1 + instruction.operands);
  };
  for (const auto& [at, added] : in_front_) {
    children[static_cast<size_t>(parent[static_cast<size_t>(at)])] += static_cast<int64_t>(added.size());
  }
  for (const int64_t at : erased_) --children[static_cast<size_t>(parent[static_cast<size_t>(at)])];
  for (size_t i = 0; i < size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    if (const auto added = in_front_.find(at); added != in_front_.end()) {
      for (const int64_t number : added->second) {
        const Inserted& one = inserted_[static_cast<size_t>(number) - size()];
        append(number, {one.opcode, static_cast<uint32_t>(one.references.size() - 1)}, 0, one.location,
               one.references.data());
      }
    }
    if (erased_.count(at) == 0) {
      append(at, table_.instructions[i], children[i], table_.locations[i], table_.references.data() + begin_[i]);
    }
  }
  for (int64_t& reference : made.references) {
    if (reference < 0) continue;
    reference = numbers[static_cast<size_t>(reference)];
    TORCH_INTERNAL_ASSERT(reference >= 0, "an instruction that is used was erased");
  }
  return made;
}

}  // namespace torch_slang
