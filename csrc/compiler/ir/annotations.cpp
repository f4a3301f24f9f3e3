#include "compiler/ir/annotations.h"

#include "compiler/ir/instruction_facts.h"
#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// Kinds of annotations (slang-type-system-shared.h): of functions with a forward derivative or a backward, and of types with one.
constexpr int64_t kForward = 1, kBackward = 4, kFirstOfTypes = 10, kPair = 10;

}  // namespace

Annotations::Annotations(const ModuleEdits& module) : module_(module) {
  for (int64_t at = 0; at < module.size(); ++at) {
    const int32_t opcode = module.opcode(at);
    if (opcode == kAnnotation) {
      const int64_t kind = module.value(module.operand(at, 1)), target = module.operand(at, 0);
      if (kind == kForward || kind == kBackward || kind >= kFirstOfTypes) annotated_.insert(target);
      // The pair of a value and its derivative names the witness.
      if (kind == kPair) witnesses_.emplace(target, module.operand(module.operand(at, 2), 1));
    } else if (opcode == kBackwardPrimal || opcode == kBackwardPropagate || opcode == kBackwardDifferentiate ||
               opcode == kForwardDifferentiate) {
      differentiated_.insert(function_of(module, module.operand(at, 0)));
    }
  }
}

bool Annotations::is_differentiable(int64_t type) const {
  if (type < 0) return false;
  switch (module_.opcode(type)) {
    case kHalf:
    case kFloat:
    case kDouble: return true;
    case kAttributedType: return false;  // no_diff
    case kRateQualifiedType: return is_differentiable(module_.operand(type, 1));
    case kVectorType:
    case kMatrixType:
    case kArrayType: return is_differentiable(module_.operand(type, 0));
    default: return is_address(type) ? is_differentiable(module_.operand(type, 0)) : annotated_.count(type) > 0;
  }
}

int64_t Annotations::witness_of(int64_t type) const {
  const auto found = witnesses_.find(type);
  return found == witnesses_.end() ? -1 : found->second;
}

bool Annotations::is_address(int64_t type) const {
  const int32_t opcode = type < 0 ? 0 : module_.opcode(type);
  return opcode >= kPointer && opcode <= kInOutParameter;
}

}  // namespace torch_slang
