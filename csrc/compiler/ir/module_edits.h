// Changes of a module's instructions that are collected first and made together. Instructions keep their numbers until then.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/ir/instruction_table.h"

namespace torch_slang {

class ModuleEdits {
 public:
  explicit ModuleEdits(std::vector<Instruction> instructions) : all_(std::move(instructions)), count_(all_.size()) {}

  int64_t size() const { return static_cast<int64_t>(count_); }  // without the new ones
  int32_t opcode(int64_t at) const { return (*this)[at].opcode; }
  int64_t type(int64_t at) const { return (*this)[at].references[0]; }  // -1: none
  size_t operands(int64_t at) const { return (*this)[at].references.size() - 1; }
  int64_t operand(int64_t at, size_t which) const { return (*this)[at].references[1 + which]; }
  const std::string& text(int64_t at) const { return (*this)[at].text; }
  int64_t value(int64_t at) const { return (*this)[at].value; }
  std::vector<int64_t> children(int64_t at) const;
  std::vector<int64_t> parents() const;  // by instruction; -1: none

  // A new instruction in front of `at`, a child of the same instruction, with its place in the source. Returns its number.
  int64_t insert(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands);
  // What uses `at` uses this instruction then.
  void replace(int64_t at, int32_t opcode, int64_t type, std::vector<int64_t> operands);
  void set_operand(int64_t at, size_t which, int64_t value) { (*this)[at].references[1 + which] = value; }
  // What refers to a key, as its type or as an operand, refers to its value then.
  void redirect(const std::map<int64_t, int64_t>& targets);
  void erase(int64_t at);  // of an instruction without children that no other one uses

  std::vector<Instruction> applied() const;

 private:
  const Instruction& operator[](int64_t at) const { return all_[static_cast<size_t>(at)]; }
  Instruction& operator[](int64_t at) { return all_[static_cast<size_t>(at)]; }
  int64_t behind(int64_t at) const;  // the instruction, and all that are below it

  std::vector<Instruction> all_;  // the new ones last
  size_t count_;
  std::map<int64_t, std::vector<int64_t>> in_front_;
  std::set<int64_t> erased_;
};

}  // namespace torch_slang
