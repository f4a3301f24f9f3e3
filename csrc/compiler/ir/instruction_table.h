// The instructions of a module, as Slang serializes them.
//
// Note [serialized instructions]
//   A module in Slang's own form holds its instructions as tables (slang-serialize-ir.cpp): each instruction stands in front of its
//   children, and an operand is the number of an instruction. The tables lie in a "fossil" (slang-fossil.h): records whose
//   pointers are 32-bit distances from where they stand, each array with its length in front of it. Nothing else points to the
//   tables, so changed ones are written behind the rest, and the pointers to them set anew.
//   Opcodes are numbers that Slang keeps from version to version (slang-ir-insts-stable-names.lua).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_slang {

struct Instruction {
  int32_t opcode = 0;
  int64_t children = 0;  // how many
  uint32_t location = 0;  // where in the fossil its place in the source stands; 0: it has none
  std::vector<int64_t> references;  // its type, then its operands: numbers of instructions; -1: none
  std::string text;  // of a string constant; not written
  int64_t value = 0;  // of an integer constant; not written
};

// Both throw where the fossil is not of the form that is known: Slang's version is another then.
std::vector<Instruction> read_instructions(const std::string& fossil);
// Constants are those that were read, in the same order.
void write_instructions(const std::vector<Instruction>& instructions, std::string& fossil);

}  // namespace torch_slang
