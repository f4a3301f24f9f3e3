#include "compiler/ir/quotients.h"

#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace torch_slang {
namespace {

// slang-ir-insts-stable-names.lua
enum Opcode : int32_t {
  kFloatConstant = 148,
  kSpecialize = 166,
  kMakeMatrixFromScalar = 175,
  kCall = 205,
  kMakeVectorFromScalar = 276,
  kDiv = 305,
  kImport = 442,
};

constexpr std::string_view kName = "10__quotient";  // in a mangled name

// The imported functions, or generics, of that name.
std::set<int64_t> library_functions(const ModuleEdits& module) {
  std::set<int64_t> found;
  const std::vector<int64_t> parents = module.parents();
  for (int64_t at = 0; at < module.size(); ++at) {
    if (module.opcode(at) != kImport) continue;
    if (module.text(module.operand(at, 0)).find(kName) == std::string::npos) continue;
    found.insert(parents[static_cast<size_t>(at)]);
  }
  return found;
}

// By type of the result: what is called.
std::map<int64_t, int64_t> callees(const ModuleEdits& module) {
  const std::set<int64_t> functions = library_functions(module);
  std::map<int64_t, int64_t> found;
  if (functions.empty()) return found;
  for (int64_t at = 0; at < module.size(); ++at) {
    if (module.opcode(at) != kCall) continue;
    const int64_t callee = module.operand(at, 0);
    const int64_t function = module.opcode(callee) == kSpecialize ? module.operand(callee, 0) : callee;
    if (functions.count(function) > 0) found.emplace(module.type(at), callee);
  }
  return found;
}

bool is_constant(const ModuleEdits& module, int64_t value) {
  const int32_t opcode = module.opcode(value);
  if (opcode == kMakeVectorFromScalar || opcode == kMakeMatrixFromScalar) {
    return is_constant(module, module.operand(value, 0));
  }
  return opcode == kFloatConstant;
}

}  // namespace

const char* const kQuotientCalls = R"(
#define TSL_QUOTIENT(TYPE) [Differentiable] TYPE tsl_quotient(TYPE a, TYPE b) { return __quotient(a, b); }
#define TSL_QUOTIENTS(T) TSL_QUOTIENT(T) TSL_QUOTIENT(T##2) TSL_QUOTIENT(T##3) TSL_QUOTIENT(T##4)
TSL_QUOTIENTS(half)
TSL_QUOTIENTS(float)
TSL_QUOTIENTS(double)
)";

void call_quotients(ModuleEdits& module) {
  const std::map<int64_t, int64_t> called = callees(module);
  for (int64_t at = 0; at < module.size(); ++at) {
    if (module.opcode(at) != kDiv || is_constant(module, module.operand(at, 1))) continue;
    const auto callee = called.find(module.type(at));
    if (callee == called.end()) continue;
    module.replace(at, kCall, module.type(at), {callee->second, module.operand(at, 0), module.operand(at, 1)});
  }
}

}  // namespace torch_slang
