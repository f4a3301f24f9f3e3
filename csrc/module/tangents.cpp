#include "program/tangents.h"

#include "audit/audits.h"
#include "functions/operator.h"
#include "kernels/operator.h"
#include "module/module.h"

namespace torch_slang {
namespace {

// What goes with the operator of a function: how its operator of tangents is made.
struct Family {
  std::string ns;
  Constants constants;
  KernelOptions options;
  std::set<std::string> names;  // that are taken

  std::shared_ptr<Operator> make(Function function, std::shared_ptr<TextSource> texts) const {
    if (function.is_kernel()) {
      return std::make_shared<KernelOperator>(ns, std::move(function), constants, std::move(texts), options, names);
    }
    return std::make_shared<ElementwiseOperator>(ns, std::move(function), std::move(texts), options, names);
  }

  // `<name>_jvp` goes with the operator.
  void add_tangents(Operator& op) const {
    const Signature& signature = op.signature();
    const Function& function = signature.function;
    if (signature.outputs.empty()) return;  // a launch alone
    std::string name = function.name + "_jvp";
    while (names.count(name) != 0) name += "_";
    auto tangents = tangents_function(function, name);
    if (!tangents) return;
    op.jvp = make(*std::move(tangents), signature.texts);
    if (!function.is_kernel()) op.dual = make(*dual_function(function, function.name), signature.texts);
  }
};

// Audits run as the module does, but for what makes numbers inexact, and not for ever.
Family of_audits(Family family) {
  constexpr double kSeconds = 20;
  family.options = KernelOptions{/*fast_math=*/false, kSeconds, std::nullopt};
  return family;
}

}  // namespace

std::shared_ptr<Operator> Module::with_tangents(std::shared_ptr<Operator> op, const Constants& constants) const {
  const Family family{ns_, constants, options_, names_};
  family.add_tangents(*op);
  if (op->signature().of(OpKind::Backward) == nullptr) return op;
  const auto make = [others = of_audits(family)](Function function, std::shared_ptr<TextSource> texts) {
    auto made = others.make(std::move(function), std::move(texts));
    others.add_tangents(*made);
    return made;
  };
  op->audits = audit::make_audits(op, make);
  for (const auto& other : {op->jvp, op->dual}) {
    if (other != nullptr) other->audits = op->audits;
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
