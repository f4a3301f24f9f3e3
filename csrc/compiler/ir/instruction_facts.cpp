#include "compiler/ir/instruction_facts.h"

#include <algorithm>

#include "compiler/ir/opcodes.h"

namespace torch_slang {

int64_t plain_type(const ModuleEdits& module, int64_t value) {
  int64_t type = value < 0 ? -1 : module.type(value);
  while (type >= 0) {
    if (module.opcode(type) == kAttributedType) {
      type = module.operand(type, 0);
    } else if (module.opcode(type) == kRateQualifiedType) {
      type = module.operand(type, 1);
    } else {
      break;
    }
  }
  return type;
}

bool is_constant_type(const ModuleEdits& module, int64_t type) {
  const int32_t opcode = module.opcode(type);
  if (opcode == kVectorType || opcode == kMatrixType) return is_constant_type(module, module.operand(type, 0));
  return opcode >= kBoolType && opcode <= kUInt64Type;
}

std::vector<int64_t> body_of(const ModuleEdits& module, int64_t function) {
  std::vector<int64_t> body;
  for (const int64_t block : module.children(function)) {
    if (module.opcode(block) != kBlock) continue;
    for (const int64_t one : module.children(block)) {
      if (module.opcode(one) != kParameter) body.push_back(one);
    }
  }
  return body;
}

int64_t function_of(const ModuleEdits& module, int64_t callee) {
  while (module.opcode(callee) == kSpecialize) callee = module.operand(callee, 0);
  while (module.opcode(callee) == kGeneric) {
    const std::vector<int64_t> body = body_of(module, callee);
    if (body.empty() || module.opcode(body.back()) != kReturn) break;
    callee = module.operand(body.back(), 0);
  }
  return callee;
}

bool has_child(const ModuleEdits& module, int64_t at, int32_t opcode) {
  return std::ranges::any_of(module.children(at), [&](int64_t one) { return module.opcode(one) == opcode; });
}

bool is_unrolled_loop(const ModuleEdits& module, int64_t at) {
  return module.opcode(at) == kLoop && has_child(module, at, kForcedUnroll);
}

bool is_store(const ModuleEdits& module, int64_t at) {
  return module.opcode(at) == kStore || module.opcode(at) == kSwizzledStore;
}

int64_t variable_of(const ModuleEdits& module, int64_t address) {
  while (module.opcode(address) == kFieldAddress || module.opcode(address) == kElementAddress)
    address = module.operand(address, 0);
  return address;
}

}  // namespace torch_slang
