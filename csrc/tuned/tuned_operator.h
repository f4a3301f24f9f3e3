// The operators of a kernel with tuned variables. It compiles no kernels of its own: each call is run by the variant that its
// tuner chooses, a KernelOperator that nobody registered.
#pragma once

#include "kernels/operator.h"
#include "tuned/tuner.h"

namespace torch_slang {

class TunedOperator final : public KernelOperator {
 public:
  TunedOperator(std::string ns, Function function, const Constants& constants, std::shared_ptr<TextSource> texts,
                KernelOptions options, const std::set<std::string>& names, bool multiplies,
                std::shared_ptr<TunedModule> module, TunedSpace space)
      : KernelOperator(std::move(ns), std::move(function), constants, std::move(texts), options, names, multiplies),
        tuner_(std::move(module), std::move(space)) {}

  using Operator::run;
  Results run(OpKind kind, Stack arguments, const CallContext& context) const override {
    return tuner_.run(signature(), kind, arguments, context);
  }
  std::vector<KernelFacts> explain() const override;

 private:
  mutable Tuner tuner_;
};

}  // namespace torch_slang
