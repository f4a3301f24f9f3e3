// Changes of a module's instructions that are collected first and made together. Instructions keep their numbers until then.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/ir/instruction_table.h"

namespace torch_slang {

class InstructionEdits {
 public:
  explicit InstructionEdits(InstructionTable table);

  const InstructionTable& table() const { return table_; }
  size_t size() const { return table_.instructions.size(); }
  int32_t opcode(int64_t at) const { return table_.instructions[static_cast<size_t>(at)].opcode; }
  size_t operands(int64_t at) const { return table_.instructions[static_cast<size_t>(at)].operands; }
  int64_t type(int64_t at) const { return table_.references[begin_[static_cast<size_t>(at)]]; }  // -1: none
  int64_t operand(int64_t at, size_t which) const {
    return table_.references[begin_[static_cast<size_t>(at)] + 1 + which];
  }

  // A new instruction in front of `at`, a child of the same instruction, with its place in the source. Returns its number.
  int64_t insert(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands);
  void set_operand(int64_t at, size_t which, int64_t value) {
    table_.references[begin_[static_cast<size_t>(at)] + 1 + which] = value;
  }
  void erase(int64_t at);  // of an instruction without children that no other one uses

  InstructionTable applied() const;

 private:
  struct Inserted {
    int32_t opcode;
    uint32_t location;
    std::vector<int64_t> references;  // the type first
  };

  std::vector<int64_t> parents() const;

  InstructionTable table_;
  std::vector<size_t> begin_;  // by instruction: of its references
  std::vector<Inserted> inserted_;  // their numbers follow those of the table
  std::map<int64_t, std::vector<int64_t>> in_front_;
  std::set<int64_t> erased_;
};

}  // namespace torch_slang
