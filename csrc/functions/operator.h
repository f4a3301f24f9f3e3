// The operators of a plain function, which run it for each element of broadcast arguments.
#pragma once

#include "functions/signature.h"
#include "operators/operator.h"
#include "specialise/kernel_table.h"

namespace torch_slang {

class ElementwiseOperator final : public Operator {
 public:
  // As ElementwiseSignature's.
  ElementwiseOperator(const std::string& ns, Function function, std::shared_ptr<TextSource> texts,
                      KernelOptions options, const std::set<std::string>& names);

  const ElementwiseSignature& signature() const override { return signature_; }
  Results run(OpKind kind, Stack arguments, const CallContext& context) const override;
  std::optional<Results> run_backward_with_values(Stack arguments) const override;
  Results run_meta(OpKind kind, Stack arguments) const override;
  void check_requires_grad(int leaf, const std::string& name) const override;
  const char* why_no_derivative() const override;
  std::vector<bool> unused_inputs(Stack arguments) const override;
  std::vector<KernelFacts> explain() const override;
  KernelSource source(const KernelKey& key, Compile compile) const override;

 private:
  const ElementwiseSignature signature_;
  mutable KernelTable kernels_;
};

}  // namespace torch_slang
