// The derivatives of slang::mm are products of transposed views, and products of those again, to any order.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <mutex>

#include "gradients/autograd_node.h"
#include "matmul.h"
#include "product_rule.h"

namespace torch_slang::product {

namespace {

namespace ag = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

// What a gradient needs: operands, undefined unless the other one's is wanted.
struct Operands {
  Tensor a, b;
};

ag::variable_list gradients(const Tensor& grad, const Operands& operands) {
  ag::variable_list result(2);
  if (!grad.defined()) return result;
  if (operands.b.defined()) result[0] = mm().call(grad, operands.b.mT());
  if (operands.a.defined()) result[1] = mm().call(operands.a.mT(), grad);
  return result;
}

class ProductBackward final : public ag::Node {
 public:
  ProductBackward(const Tensor& a, const Tensor& b) : ag::Node(ag::collect_next_edges(a, b)) {
    if (should_compute_output(1)) a_ = save_input(a);
    if (should_compute_output(0)) b_ = save_input(b);
  }

  std::string name() const override { return "Slang_mm_Backward"; }

  ag::variable_list apply(ag::variable_list&& grads) override { return gradients(grads[0], operands()); }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    a_.reset_data();
    b_.reset_data();
  }

  void compiled_args(dynamo::CompiledNodeArgs& args) const override {
    args.collect(a_, /*is_output=*/false);
    args.collect(b_, /*is_output=*/false);
  }

  ag::variable_list apply_with_saved(const ag::variable_list& grads, dynamo::SwapSavedVariables& swap) override {
    swap.before(a_);
    swap.before(b_);
    const auto [a, b] = operands();
    const auto call = [](const ag::variable_list& inputs, const std::vector<c10::IValue>& packed) {
      return gradients(inputs[0], {packed[0].toTensor(), packed[1].toTensor()});
    };
    const std::vector<c10::IValue> arguments{a, b};
    auto results = record_call(*this, swap, grads, arguments, call);
    swap.after(a_);
    swap.after(b_);
    return results;
  }

 private:
  Operands operands() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {task_should_compute_output(1) ? a_.unpack() : Tensor(),
            task_should_compute_output(0) ? b_.unpack() : Tensor()};
  }

  ag::SavedVariable a_, b_;  // empty where nobody can want the other one's gradient
};

}  // namespace

Tensor mm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) {
  Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    result = mm().redispatch(keys & c10::after_autograd_keyset, a, b);
  }
  if (c10::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad())) {
    ag::set_history(result, make_node<ProductBackward>(a, b));
  }
  if (ag::isFwGradDefined(a) || ag::isFwGradDefined(b)) {
    const auto multiply = [](const Tensor& x, const Tensor& y) { return mm().call(x, y); };
    result._set_fw_grad(tangent_of_product(multiply, a, b), /*level=*/0, /*is_inplace_op=*/false);
  }
  return result;
}

}  // namespace torch_slang::product
