#include "compiler/ir/promotions.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/module_edits.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// The name of `__init(float)` of Slang's IFloat.
constexpr std::string_view kInitializerOfFloat = "key__S4core6IFloatR8_24xinitp1pi_fb";

bool is_arithmetic(int32_t opcode) {
  return opcode == kAdd || opcode == kSub || opcode == kMul || opcode == kDiv || opcode == kFRem;
}

// What is promoted to this type, or 0.
int32_t promotion_to(int32_t type) {
  if (type == kVectorType) return kMakeVectorFromScalar;
  return type == kMatrixType ? kMakeMatrixFromScalar : 0;
}

int32_t type_of(const ModuleEdits& module, int64_t value) {
  const int64_t type = plain_type(module, value);
  return type < 0 ? 0 : module.opcode(type);
}

// A float, or a type parameter that may be one.
bool is_float(const ModuleEdits& module, int64_t type) {
  const int32_t opcode = module.opcode(type);
  return opcode == kHalf || opcode == kFloat || opcode == kDouble || opcode == kParameter;
}

// `this = __builtin_cast<vector<To, N>>(vector<From, N>(value))`
bool is_conversion_to_vector(const ModuleEdits& module, int64_t call) {
  const int64_t function = function_of(module, module.operand(call, 0));
  if (module.opcode(function) != kFunction) return false;
  const std::vector<int64_t> body = body_of(module, function);
  return has_child(module, function, kConstructor) && body.size() == 3 &&
         module.opcode(body[0]) == kMakeVectorFromScalar && module.opcode(body[1]) == kBuiltinCast;
}

bool is_conversion_by_witness(const ModuleEdits& module, int64_t call) {
  const int64_t callee = module.operand(call, 0);
  if (module.opcode(callee) != kLookupWitness) return false;
  const std::vector<int64_t> children = module.children(module.operand(callee, 1));
  return std::any_of(children.begin(), children.end(), [&](int64_t one) {
    return module.opcode(one) == kImport && module.text(module.operand(one, 0)) == kInitializerOfFloat;
  });
}

}  // namespace

void promote_operands(ModuleEdits& module) {
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

void replace_conversions(ModuleEdits& module) {
  for (int64_t at = 0; at < module.size(); ++at) {
    if (module.opcode(at) != kCall || module.operands(at) != 2) continue;
    const int64_t value = module.operand(at, 1), from = plain_type(module, value), to = plain_type(module, at);
    if (from < 0 || to < 0 || !is_float(module, from)) continue;
    if (module.opcode(to) == kVectorType) {
      const int64_t element = module.operand(to, 0);
      if (!is_float(module, element) || !is_conversion_to_vector(module, at)) continue;
      module.replace(at, kMakeVectorFromScalar, to, {module.insert(at, kBuiltinCast, element, {value})});
    } else if (is_float(module, to) && is_conversion_by_witness(module, at)) {
      module.replace(at, kBuiltinCast, to, {value});
    }
  }
}

// Note [types of indices]
void drop_attributes_of_constants(ModuleEdits& module) {
  std::map<int64_t, int64_t> plain;
  for (int64_t at = 0; at < module.size(); ++at) {
    if (module.opcode(at) == kAttributedType && is_constant_type(module, module.operand(at, 0)))
      plain[at] = module.operand(at, 0);
  }
  module.redirect(plain);
}

}  // namespace torch_slang
