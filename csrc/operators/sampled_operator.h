// A kernel's operators for calls under torch.vmap: "slang_vmap::sqr" takes what "slang::sqr" does with dimensions of samples in front of
// each tensor's own, and by `sample_dims` how many. Note [batching rules] in dispatch/vmap.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace torch_slang {

class SampledOperator final : public Operator {
 public:
  explicit SampledOperator(std::shared_ptr<const Operator> plain);

  using Operator::run;
  using Operator::source;
  static std::string full_name_of(const Signature& plain) { return plain.ns + "_vmap::" + plain.function.name; }

  const Operator& plain() const { return *plain_; }
  // Messages go by the plain operator's names.
  const Signature& signature() const override { return signature_; }
  // The plain operator runs the call: the number of dimensions is the last on the stack (Arguments::samples).
  Results run(OpKind kind, Stack arguments, const CallContext& context) const override {
    return plain_->run(kind, arguments, context);
  }
  Results run_meta(OpKind kind, Stack arguments) const override { return plain_->run_meta(kind, arguments); }
  void check_requires_grad(int leaf, const std::string& name) const override {
    plain_->check_requires_grad(leaf, name);
  }
  std::vector<bool> unused_inputs(Stack arguments) const override { return plain_->unused_inputs(arguments); }
  std::vector<KernelFacts> explain() const override { return plain_->explain(); }
  KernelSource source(const KernelKey& key, Compile compile) const override { return plain_->source(key, compile); }

 private:
  struct OfSamples final : Signature {
    explicit OfSamples(const Signature& plain);
  };

  const std::shared_ptr<const Operator> plain_;
  const OfSamples signature_;
};

// After a call of a derivative on CPU or CUDA tensors: Audited::after.
void audit_after(const Operator& op, OpKind kind, Operator::Stack arguments);

}  // namespace torch_slang
