#include "compiler/ir/quotients.h"

#include <array>
#include <string_view>

#include "compiler/ir/opcodes.h"

namespace torch_slang {
namespace {

// An instruction, and what it becomes a call of.
struct Division {
  int32_t opcode;
  LibraryCalls::Function function;
  std::string_view requirement;  // IFloat's function
  bool has_rule;  // Slang has its derivative by a constant divisor
};
constexpr std::array<Division, 2> kDivisions = {{
    {kDiv, LibraryCalls::Quotient, "key__S4core6IFloat3divp1pi_4core6IFloat4This4core6IFloat4This", true},
    {kFRem, LibraryCalls::Remainder, "key__S4core6IFloat3modp1pi_4core6IFloat4This4core6IFloat4This", false},
}};

class Quotients {
 public:
  Quotients(ModuleEdits& module, LibraryCalls& library) : module_(module), library_(library) {}

  void call() {
    for (int64_t at = 0; at < module_.size(); ++at) {
      for (const Division& division : kDivisions) {
        if (module_.opcode(at) == division.opcode) {
          if (division.has_rule && is_constant(module_.operand(at, 1))) continue;
          replace(at, division, module_.operand(at, 0), module_.operand(at, 1));
        } else if (divides_by_witness(division, at)) {
          replace(at, division, module_.operand(at, 1), module_.operand(at, 2));
        }
      }
    }
  }

 private:
  bool is_constant(int64_t value) const {
    const int32_t opcode = module_.opcode(value);
    if (opcode == kMakeVectorFromScalar || opcode == kMakeMatrixFromScalar)
      return is_constant(module_.operand(value, 0));
    return opcode == kFloatConstant;
  }

  // `a / b` of a type parameter asks for IFloat's function, and so does core's `/=` of vectors.
  bool divides_by_witness(const Division& division, int64_t at) const {
    if (module_.opcode(at) != kCall || module_.operands(at) != 3) return false;
    const int64_t callee = module_.operand(at, 0);
    return module_.opcode(callee) == kLookupWitness &&
           library_.has_name(module_.operand(callee, 1), division.requirement);
  }

  void replace(int64_t at, const Division& division, int64_t a, int64_t b) {
    if (const auto callee = library_.callee(division.function, module_.type(at), at))
      module_.replace(at, kCall, module_.type(at), {callee->function, a, b});
  }

  ModuleEdits& module_;
  LibraryCalls& library_;
};

}  // namespace

void call_quotients(ModuleEdits& module, LibraryCalls& library) { Quotients(module, library).call(); }

}  // namespace torch_slang
