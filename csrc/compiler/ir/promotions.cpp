#include "compiler/ir/promotions.h"

#include <c10/util/Exception.h>

#include "compiler/ir/chunks.h"
#include "compiler/ir/instruction_edits.h"
#include "compiler/ir/instruction_table.h"

namespace torch_slang {
namespace {

// slang-ir-insts-stable-names.lua
enum Opcode : int32_t {
  kVectorType = 31,
  kMatrixType = 32,
  kAttributedType = 34,
  kMakeMatrixFromScalar = 175,
  kMakeVectorFromScalar = 276,
  kAdd = 302,
  kSub = 303,
  kMul = 304,
  kDiv = 305,
  kFRem = 307,
  kDebugLocation = 538,
  kDebugLine = 639,
};

bool is_arithmetic(int32_t opcode) {
  return opcode == kAdd || opcode == kSub || opcode == kMul || opcode == kDiv || opcode == kFRem;
}

// What is promoted to this type, or 0.
int32_t promotion_to(int32_t type) {
  if (type == kVectorType) return kMakeVectorFromScalar;
  return type == kMatrixType ? kMakeMatrixFromScalar : 0;
}

// The opcode of a value's type, without attributes; or 0.
int32_t type_of(const InstructionEdits& module, int64_t value) {
  int64_t type = value < 0 ? -1 : module.type(value);
  while (type >= 0 && module.opcode(type) == kAttributedType) type = module.operand(type, 0);
  return type < 0 ? 0 : module.opcode(type);
}

void promote_operands(InstructionEdits& module) {
  for (int64_t at = 0; at < static_cast<int64_t>(module.size()); ++at) {
    if (!is_arithmetic(module.opcode(at))) continue;
    const int32_t promotion = promotion_to(type_of(module, at));
    if (promotion == 0) continue;
    for (size_t i = 0; i < module.operands(at); ++i) {
      const int64_t operand = module.operand(at, i);
      if (promotion_to(type_of(module, operand)) != 0) continue;
      module.set_operand(at, i, module.insert(at, promotion, module.type(at), {operand}));
    }
  }
}

// They come with the places in the source, which the text needs.
void erase_debug_lines(InstructionEdits& module) {
  for (int64_t at = 0; at < static_cast<int64_t>(module.size()); ++at) {
    if (module.opcode(at) == kDebugLine || module.opcode(at) == kDebugLocation) module.erase(at);
  }
}

}  // namespace

std::string with_explicit_promotions(const std::string& module) {
  Chunk root = read_chunks(module);
  Chunk* code = find_data(root, "ir  ");
  TORCH_CHECK(code != nullptr, "torch-slangc: a serialized Slang module has no instructions");
  InstructionEdits edits(read_instructions(code->data));
  erase_debug_lines(edits);
  promote_operands(edits);
  write_instructions(edits.applied(), code->data);
  return write_chunks(root);
}

}  // namespace torch_slang
