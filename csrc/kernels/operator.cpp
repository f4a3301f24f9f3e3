#include "kernels/operator.h"

#include <c10/util/Exception.h>

#include "kernels/call.h"
#include "kernels/facts.h"
#include "kernels/learn.h"
#include "kernels/load.h"
#include "kernels/shared_elements.h"
#include "kernels/specialize.h"

namespace torch_slang {

KernelOperator::KernelOperator(std::string ns, Function function, const Constants& constants,
                               std::shared_ptr<TextSource> texts, KernelOptions options,
                               const std::set<std::string>& names, bool multiplies)
    : signature_(std::move(ns), std::move(function), constants, std::move(texts), options, names, multiplies),
      kernels_([this](const KernelKey& key,
                      const CallContext& context) { return load_kernel(signature_, key, context, kernels_); },
               [this] { return shared_from_this(); }) {}

Results KernelOperator::run(OpKind kind, Stack arguments, const CallContext& context) const {
  return run_kernel({signature_, kernels_, thread_choices_}, kind, arguments, context);
}

Results KernelOperator::run_meta(OpKind kind, Stack arguments) const {
  return run_kernel_meta(signature_, kind, arguments);
}

void KernelOperator::check_requires_grad(int, const std::string& name) const {
  TORCH_CHECK(signature_.function.has_backward, signature_.qualified(OpKind::Forward), ": ", name,
              " requires grad, but the kernel has no derivative: mark it [Differentiable], or call it under "
              "torch.no_grad()");
}

// As an earlier backward of these types has shown.
std::vector<bool> KernelOperator::unused_inputs(Stack arguments) const {
  const auto [types, device] = types_and_device(signature_, OpKind::Forward, arguments);
  const auto backward = kernels_.any_backward(types, device);
  return backward != nullptr ? backward->unused : std::vector<bool>(signature_.function.leaves.size(), false);
}

std::vector<KernelFacts> KernelOperator::explain() const {
  std::vector<KernelFacts> all;
  for (const auto& [key, loaded] : kernels_.ready()) all.push_back(facts_of(signature_, key, *loaded));
  return all;
}

KernelSource KernelOperator::source(const KernelKey& key, Compile compile) const {
  for (KnownUse known;;) {
    KernelSource source = specialize(signature_, key, known);
    if (!compile || !learn(signature_, key, compile(source), known)) return source;
  }
}

void KernelOperator::share_threads(KernelKey& key) const {
  const int axis = shared_axis(signature_, key);
  if (axis < 0) return;
  key.threads.axis = axis;
  key.threads.shares = true;
  key.threads.repeats = 2;
}

}  // namespace torch_slang
