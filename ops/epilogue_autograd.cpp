// The derivatives of products with an epilogue. The function's own backward operator gives, in one kernel, the gradients of
// the sum and of the arguments, those of what was broadcast added up; products of transposed views give those of a and b.
//
// A derivative of second order is the backward operator's affair: sum is a result of the recorded operator, so nothing is
// left out of the graph.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <mutex>

#include "epilogue.h"
#include "op/autograd_node.h"
#include "op/run.h"

namespace torch_slang::product {

namespace {

namespace ag = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

// The function that a forward was recorded with, whatever is reloaded later.
struct Recorded {
  const RegisteredFamily& family;
  std::shared_ptr<const Operator> op;

  bool is_differentiable(size_t argument) const { return op->function.leaves[argument + 1].differentiable; }
};

// What a backward looks at: sum and arguments; a and b, undefined unless the other one's gradient is wanted. `wanted`: of
// a, of b and of each argument.
struct Saved {
  Tensor a, b, sum;
  std::vector<Tensor> arguments;
  std::vector<bool> wanted;
};

// Of sum, then of each argument; undefined where not wanted.
ag::variable_list gradients_of_function(const Recorded& function, const Tensor& grad, const Saved& saved) {
  torch::jit::Stack stack{grad, saved.sum};
  c10::List<bool> mask;
  mask.push_back(saved.wanted[0] || saved.wanted[1]);
  for (size_t i = 0; i < saved.arguments.size(); ++i) {
    stack.emplace_back(saved.arguments[i]);
    if (function.is_differentiable(i)) mask.push_back(saved.wanted[i + 2]);
  }
  stack.emplace_back(std::move(mask));
  ag::variable_list result(saved.arguments.size() + 1);
  const auto give = [&](const auto& tensor_at) {
    size_t next = 0;
    result[0] = tensor_at(next++);
    for (size_t i = 0; i < saved.arguments.size(); ++i) {
      if (function.is_differentiable(i)) result[i + 1] = tensor_at(next++);
    }
  };
  if (function.family.has_schemas_of(*function.op)) {
    const PinnedOperator pin(function.family, *function.op);
    function.family.handle(OpKind::Backward).callBoxed(&stack);
    give([&](size_t i) { return stack[i].toTensor(); });
  } else {  // the name was reloaded with other arguments: what was recorded runs as it was recorded
    const Results computed = run(*function.op, OpKind::Backward, stack);
    give([&](size_t i) { return computed[i]; });
  }
  return result;
}

// `grads`: of the result and of sum.
ag::variable_list gradients(const Recorded& function, const ag::variable_list& grads, const Saved& saved) {
  ag::variable_list result(saved.arguments.size() + 2);
  Tensor of_sum = grads[1];
  if (grads[0].defined()) {
    const auto of_function = gradients_of_function(function, grads[0], saved);
    of_sum = of_sum.defined() && of_function[0].defined() ? of_sum.add(of_function[0])
             : of_sum.defined()                           ? of_sum
                                                          : of_function[0];
    std::copy(of_function.begin() + 1, of_function.end(), result.begin() + 2);
  }
  if (!of_sum.defined()) return result;
  if (saved.wanted[0]) result[0] = mm().call(of_sum, saved.b.mT());
  if (saved.wanted[1]) result[1] = mm().call(saved.a.mT(), of_sum);
  return result;
}

template <class Node>
auto pointer_to(Node* node) {
  if constexpr (kNodesAreIntrusive)
    return c10::intrusive_ptr<ag::Node>::reclaim_copy(node);
  else
    return node->shared_from_this();
}

class EpilogueBackward final : public ag::Node {
 public:
  EpilogueBackward(Recorded function, const Tensor& a, const Tensor& b, at::TensorList arguments)
      : function_(std::move(function)) {
    ag::edge_list edges;
    const auto add = [&](const Tensor& tensor, bool differentiable) {
      edges.push_back(differentiable && tensor.requires_grad() ? ag::impl::gradient_edge(tensor) : ag::Edge());
    };
    add(a, true);
    add(b, true);
    for (size_t i = 0; i < arguments.size(); ++i) add(arguments[i], function_.is_differentiable(i));
    set_next_edges(std::move(edges));
    if (should_compute_output(1)) a_ = ag::SavedVariable(a, /*is_output=*/false);
    if (should_compute_output(0)) b_ = ag::SavedVariable(b, /*is_output=*/false);
    for (const Tensor& argument : arguments) arguments_.emplace_back(argument, /*is_output=*/false);
  }

  // After this node has become the results' history.
  void save_sum(const Tensor& sum) { sum_ = ag::SavedVariable(sum, /*is_output=*/true); }

  std::string name() const override { return "Slang_" + function_.op->function.name + "_product_Backward"; }

  ag::variable_list apply(ag::variable_list&& grads) override { return gradients(function_, grads, saved()); }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for_each_saved([](ag::SavedVariable& saved) { saved.reset_data(); });
  }

  void compiled_args(dynamo::CompiledNodeArgs& args) const override {
    args.collect(reinterpret_cast<uint64_t>(function_.op.get()));  // another Program, another graph
    args.collect(a_, /*is_output=*/false);
    args.collect(b_, /*is_output=*/false);
    args.collect(sum_, /*is_output=*/true);
    for (const auto& argument : arguments_) args.collect(argument, /*is_output=*/false);
  }

  ag::variable_list apply_with_saved(const ag::variable_list& grads, dynamo::SwapSavedVariables& swap) override {
    for_each_saved([&](ag::SavedVariable& saved) { swap.before(saved); });
    const Saved now = saved();
    std::vector<c10::IValue> packed{now.a, now.b, now.sum};
    for (const Tensor& argument : now.arguments) packed.emplace_back(argument);
    const auto call = [function = function_, wanted = now.wanted](const ag::variable_list& inputs,
                                                                  const std::vector<c10::IValue>& values) {
      Saved given{values[0].toTensor(), values[1].toTensor(), values[2].toTensor(), {}, wanted};
      for (size_t i = 3; i < values.size(); ++i) given.arguments.push_back(values[i].toTensor());
      return gradients(function, inputs, given);
    };
    auto results = record_call(*this, swap, grads, packed, call);
    for_each_saved([&](ag::SavedVariable& saved) { swap.after(saved); });
    return results;
  }

 private:
  template <class Use>
  void for_each_saved(const Use& use) {
    use(a_);
    use(b_);
    use(sum_);
    for (auto& argument : arguments_) use(argument);
  }

  Saved saved() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Saved result;
    for (size_t i = 0; i < arguments_.size() + 2; ++i) result.wanted.push_back(task_should_compute_output(i));
    if (result.wanted[1]) result.a = a_.unpack();
    if (result.wanted[0]) result.b = b_.unpack();
    result.sum = sum_.unpack(pointer_to(this));
    for (const auto& argument : arguments_) result.arguments.push_back(argument.unpack());
    return result;
  }

  const Recorded function_;
  ag::SavedVariable a_, b_;  // empty where nobody can want the other one's gradient
  ag::SavedVariable sum_;
  std::vector<ag::SavedVariable> arguments_;
};

Recorded recorded(c10::string_view name, const Tensor& a) {
  const RegisteredFamily& family = epilogue_named(name).function(a.scalar_type());
  return {family, family.current()};
}

bool is_recorded(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  const auto has_tangent = [](const Tensor& tensor) { return ag::isFwGradDefined(tensor); };
  TORCH_CHECK_NOT_IMPLEMENTED(
      !has_tangent(a) && !has_tangent(b) && std::none_of(arguments.begin(), arguments.end(), has_tangent),
      epilogue_named(name).where, ": forward-mode derivatives are not available");
  if (!c10::GradMode::is_enabled()) return false;
  if (a.requires_grad() || b.requires_grad()) return true;
  if (std::none_of(arguments.begin(), arguments.end(), [](const Tensor& t) { return t.requires_grad(); })) return false;
  const Recorded function = recorded(name, a);
  for (size_t i = 0; i < arguments.size() && i + 1 < function.op->function.leaves.size(); ++i) {
    if (arguments[i].requires_grad() && function.is_differentiable(i)) return true;
  }
  return false;
}

}  // namespace

Tensor mm_with_epilogue_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a, const Tensor& b,
                                 at::TensorList arguments) {
  if (is_recorded(name, a, b, arguments)) return std::get<0>(mm_with_epilogue_and_sum().call(name, a, b, arguments));
  const at::AutoDispatchBelowADInplaceOrView guard;
  return mm_with_epilogue().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
}

TensorPair mm_with_epilogue_and_sum_autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& a,
                                             const Tensor& b, at::TensorList arguments) {
  TensorPair results;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    results = mm_with_epilogue_and_sum().redispatch(keys & c10::after_autograd_keyset, name, a, b, arguments);
  }
  if (!is_recorded(name, a, b, arguments)) return results;
  const auto node = make_node<EpilogueBackward>(recorded(name, a), a, b, arguments);
  ag::set_history(std::get<0>(results), node);
  ag::set_history(std::get<1>(results), node);
  node->save_sum(std::get<1>(results));
  return results;
}

}  // namespace torch_slang::product
