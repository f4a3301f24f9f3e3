// The operators of a kernel.
#pragma once

#include "kernels/signature.h"
#include "kernels/thread_choices.h"
#include "operators/operator.h"
#include "specialise/kernel_table.h"

namespace torch_slang {

class KernelOperator : public Operator {
 public:
  // As KernelSignature's. `multiplies`: its blocks multiply matrices.
  KernelOperator(std::string ns, Function function, const Constants& constants, std::shared_ptr<TextSource> texts,
                 KernelOptions options, const std::set<std::string>& names, bool multiplies = false);

  using Operator::run;
  using Operator::source;
  const KernelSignature& signature() const final { return signature_; }
  Results run(OpKind kind, Stack arguments, const CallContext& context) const override;
  Results run_meta(OpKind kind, Stack arguments) const final;
  void check_requires_grad(int leaf, const std::string& name) const final;
  std::vector<bool> unused_inputs(Stack arguments) const final;
  std::vector<KernelFacts> explain() const override;
  KernelSource source(const KernelKey& key, Compile compile) const final;
  void share_threads(KernelKey& key) const final;

  // The compiled kernel of a key. Throws CompileError.
  void compile(const KernelKey& key) const { kernels_.get(key, {}); }

 private:
  const KernelSignature signature_;
  mutable KernelTable kernels_;
  mutable ThreadChoices thread_choices_;
};

}  // namespace torch_slang
