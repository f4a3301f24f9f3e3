#include "program/tangents.h"

#include "call/elementwise/elementwise_operator.h"
#include "call/kernel_operator.h"
#include "module/module.h"

namespace torch_slang {

// `<name>_jvp` goes with the operator.
std::shared_ptr<Operator> Module::with_tangents(std::shared_ptr<Operator> op, const Constants& constants) const {
  const Function& function = op->signature().function;
  if (op->signature().outputs.empty()) return op;  // a launch alone
  std::string name = function.name + "_jvp";
  while (names_.count(name) != 0) name += "_";
  auto tangents = tangents_function(function, name);
  if (!tangents) return op;
  if (function.is_kernel) {
    op->jvp = std::make_shared<KernelOperator>(ns_, *std::move(tangents), constants, texts_, options_, names_);
  } else {
    op->jvp = std::make_shared<ElementwiseOperator>(ns_, *std::move(tangents), texts_, options_, names_);
    op->dual =
        std::make_shared<ElementwiseOperator>(ns_, *dual_function(function, function.name), texts_, options_, names_);
  }
  return op;
}

// The operator of tangents that is called `name`; null if there is none, or not yet.
std::shared_ptr<Operator> Module::find_tangents(const std::string& name) const {
  const auto among = [&](const auto& operators) -> std::shared_ptr<Operator> {
    for (const auto& [other, op] : operators) {
      if (op != nullptr && op->jvp != nullptr && op->jvp->signature().function.name == name) return op->jvp;
    }
    return nullptr;
  };
  if (auto op = among(operators_)) return op;
  const std::lock_guard<std::mutex> lock(functions_mutex_);
  return among(functions_);
}

}  // namespace torch_slang
