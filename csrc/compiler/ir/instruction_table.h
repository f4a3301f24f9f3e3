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

struct InstructionTable {
  struct Instruction {
    int32_t opcode;
    uint32_t operands;  // without its type
  };

  // By instruction.
  std::vector<Instruction> instructions;
  std::vector<int64_t> children;  // how many
  std::vector<uint32_t> locations;  // where in the fossil its place in the source stands; 0: it has none
  // Of all instructions, one after the other: the type, then the operands. -1: none.
  std::vector<int64_t> references;
};

// Both throw where the fossil is not of the form that is known: Slang's version is another then.
InstructionTable read_instructions(const std::string& fossil);
void write_instructions(const InstructionTable& table, std::string& fossil);

}  // namespace torch_slang
