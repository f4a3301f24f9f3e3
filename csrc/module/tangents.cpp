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
  }
  return op;
}

}  // namespace torch_slang
