// An Operator is one kernel or plain function of one Program with the compiled kernels that it has so far, and the facts that were
// measured of them. It is shared by the registered op, by Module callables and by the graphs that were recorded with it, so
// a reload never changes what any of them runs. Any thread may call.
//
// Three classes have kernels: KernelOperator, TunedOperator (a kernel with tuned variables: several compiled variants) and
// ElementwiseOperator. A fourth, SampledOperator (operators/sampled_operator.h), passes calls under torch.vmap to one of these;
// dispatch alone asks whether an Operator is one. All else uses this interface.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "operators/audited.h"
#include "operators/call_context.h"
#include "operators/kernel_facts.h"
#include "operators/signature.h"

namespace torch_slang {

class Operator : public std::enable_shared_from_this<Operator> {
 public:
  using Stack = c10::ArrayRef<c10::IValue>;  // the arguments of a call, in the schema's order

  Operator() = default;
  virtual ~Operator() = default;
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  virtual const Signature& signature() const = 0;

  // Runs one call on CPU or CUDA tensors, below autograd.
  virtual Results run(OpKind kind, Stack arguments, const CallContext& context) const = 0;
  Results run(OpKind kind, Stack arguments) const { return run(kind, arguments, {}); }
  // A backward's results, then the forward's, by one kernel; of operators that compute tangents. None where there is no such kernel.
  virtual std::optional<Results> run_backward_with_values(Stack) const { return std::nullopt; }
  // The same call's results on the meta device: shapes, dtypes and errors, symbolic sizes included.
  virtual Results run_meta(OpKind kind, Stack arguments) const = 0;

  // Throws if a tensor of this leaf, which requires grad, has no gradient to be had. `name`: of the argument.
  virtual void check_requires_grad(int leaf, const std::string& name) const = 0;
  // Where the results of a forward without a derivative may be had all the same: what to say once somebody asks for gradients.
  virtual const char* why_no_derivative() const { return nullptr; }
  // By leaf: inputs of a forward whose values a backward will not look at, as far as that is known.
  virtual std::vector<bool> unused_inputs(Stack arguments) const = 0;

  // Of the kernels that are compiled. Where gradients need atomics, compiles once more to learn which statements are the cause.
  virtual std::vector<KernelFacts> explain() const = 0;
  // The source of a kernel. `compile` compiles a source and returns the marks in its code: the result is then the last source,
  // whose marks show nothing new. Without it, the first.
  using Compile = c10::function_ref<std::set<std::string>(const KernelSource& source)>;
  virtual KernelSource source(const KernelKey& key, Compile compile) const = 0;
  KernelSource source(const KernelKey& key) const { return source(key, nullptr); }
  // Chooses virtual threads along the axis along which threads share elements of gradients, if there is one.
  virtual void share_threads(KernelKey&) const {}

  // `<name>_jvp`: computes tangents (program/tangents.h). Null where there are none. Set before the operator is shared.
  std::shared_ptr<Operator> jvp;
  // Gives what `<name>_jvp` does and the results: Note [dual calls] in dispatch/dual_call.h. Null where two calls give them.
  std::shared_ptr<Operator> dual;
  // Audits the derivatives; one for the operator, `jvp` and `dual`. Null: nobody does.
  std::shared_ptr<Audited> audits;
};

}  // namespace torch_slang
