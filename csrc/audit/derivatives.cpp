#include "audit/derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "gradients/derivative_arguments.h"

namespace torch_slang::audit {
namespace {

Tensors listed(Results results) { return {results.begin(), results.end()}; }

CallContext quiet_call() {
  CallContext context;
  context.marks_outputs = true;
  context.is_unmeasured = true;
  context.hides_kernels = true;
  return context;
}

}  // namespace

Tensors Derivatives::inputs() const {
  Tensors all;
  for (const int leaf : f_.signature().differentiable) all.push_back(problem_.values[leaf].toTensor());
  return all;
}

Derivatives Derivatives::with_integers(const std::function<at::Tensor(const at::Tensor&)>& other) const {
  Problem problem = problem_;
  for (c10::IValue& value : problem.values) {
    if (value.isTensor() && !c10::isFloatingType(value.toTensor().scalar_type())) value = other(value.toTensor());
  }
  return {f_, std::move(problem)};
}

std::vector<c10::IValue> Derivatives::with(const Tensors& x) const {
  std::vector<c10::IValue> values = problem_.values;
  for (size_t i = 0; i < x.size(); ++i) values[f_.signature().differentiable[i]] = x[i];
  return values;
}

Tensors Derivatives::values(const Tensors& x) const {
  const Signature& signature = f_.signature();
  std::vector<c10::IValue> values = with(x), stack;
  for (size_t i = 0; i < values.size(); ++i) {
    if (signature.function.leaves[i].is_written()) values[i] = values[i].toTensor().clone();
  }
  for (const OpArgument& argument : signature.of(OpKind::Forward)->arguments) stack.push_back(values[argument.leaf]);
  const Results results = f_.run(OpKind::Forward, stack, quiet_call());
  Tensors found;
  for (const int leaf : signature.grad_outputs) {
    const auto at = std::find(signature.outputs.begin(), signature.outputs.end(), leaf);
    found.push_back(at == signature.outputs.end() ? values[leaf].toTensor() : results[at - signature.outputs.begin()]);
  }
  return found;
}

Tensors Derivatives::tangents(const Tensors& x, const Tensors& t) const {
  DerivativeArguments arguments(f_);
  arguments.values = with(x);
  for (size_t i = 0; i < t.size(); ++i) arguments.tangents[f_.signature().differentiable[i]] = t[i];
  return listed(f_.jvp->run(OpKind::Forward, arguments_of_jvp(*f_.jvp, arguments), quiet_call()));
}

Tensors Derivatives::gradients(const Tensors& x, const Tensors& g) const {
  DerivativeArguments arguments(f_);
  arguments.values = with(x);
  for (size_t i = 0; i < g.size(); ++i) arguments.gradients[f_.signature().grad_outputs[i]] = g[i].clone();
  const std::vector<bool> all(f_.signature().differentiable.size(), true);
  return listed(f_.run(OpKind::Backward, arguments_of_backward(f_, arguments, all), quiet_call()));
}

Tensors Derivatives::second(const Tensors& x, const Tensors& t, const Tensors& g) const {
  DerivativeArguments arguments(f_);
  arguments.values = with(x);
  for (size_t i = 0; i < t.size(); ++i) arguments.tangents[f_.signature().differentiable[i]] = t[i];
  for (size_t i = 0; i < g.size(); ++i) arguments.gradients[f_.signature().grad_outputs[i]] = g[i].clone();
  const std::vector<bool> all(f_.signature().differentiable.size(), true);
  Results results = f_.jvp->run(OpKind::Backward, arguments_of_jvp_backward(f_, arguments, all), quiet_call());
  return gradients_by_input(f_, listed(std::move(results)));
}

at::Tensor Derivatives::by_row(const at::Tensor& products) const {
  const at::Tensor all = products.to(at::kDouble);
  return problem_.rows == 0 ? all.sum().reshape({1}) : all.reshape({problem_.rows, -1}).sum(1);
}

at::Tensor Derivatives::dot(const Tensors& a, const Tensors& b) const {
  at::Tensor sum = at::zeros({std::max<int64_t>(problem_.rows, 1)}, at::kDouble);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() && b[i].defined()) sum += by_row(a[i].to(at::kDouble) * b[i].to(at::kDouble));
  }
  return sum;
}

at::Tensor Derivatives::size_of_dot(const Tensors& a, const Tensors& b) const {
  at::Tensor sum = at::zeros({std::max<int64_t>(problem_.rows, 1)}, at::kDouble);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() && b[i].defined()) sum += by_row((a[i].to(at::kDouble) * b[i].to(at::kDouble)).abs());
  }
  return sum;
}

}  // namespace torch_slang::audit
