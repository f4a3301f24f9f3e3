// The derivatives of the block-sparse products are such products again, to any order.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <mutex>
#include <tuple>
#include <utility>

#include "block_sparse.h"
#include "block_sparse_rule.h"
#include "gradients/autograd_node.h"
#include "product_rule.h"

namespace torch_slang::block_sparse {
namespace {

namespace ag = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

struct Sdd {
  ProductLayout layout;
  at::DimVector block_shape;

  static const char* name() { return "Slang_block_sparse_sdd_Backward"; }
  Tensor forward(const Tensor& a, const Tensor& b) const {
    return sdd().call(a, b, layout.tensors, layout.sizes, block_shape);
  }
  Tensor of_first(const Tensor& grad, const Tensor& b) const {
    return mm().call(b, grad, layout.tensors, layout.sizes, /*transpose=*/true).mT();
  }
  Tensor of_second(const Tensor& grad, const Tensor& a) const {
    return mm().call(a.mT(), grad, layout.tensors, layout.sizes, /*transpose=*/false);
  }
  void collect(dynamo::CompiledNodeArgs& args) const {
    for (const int64_t size : block_shape) args.collect(size);
  }
};

// Operands, undefined unless the other one's gradient is wanted.
template <class Product>
ag::variable_list gradients(const Product& product, const Tensor& grad, const Tensor& first, const Tensor& second) {
  ag::variable_list result(2);
  if (!grad.defined()) return result;
  if (second.defined()) result[0] = product.of_first(grad, second);
  if (first.defined()) result[1] = product.of_second(grad, first);
  return result;
}

template <class Product>
class ProductBackward final : public ag::Node {
 public:
  ProductBackward(Product product, const Tensor& first, const Tensor& second)
      : ag::Node(ag::collect_next_edges(first, second)), product_(std::move(product)) {
    if (should_compute_output(1)) first_ = save_input(first);
    if (should_compute_output(0)) second_ = save_input(second);
    for (const Tensor& tensor : product_.layout.tensors) pattern_.push_back(save_input(tensor));
  }

  std::string name() const override { return Product::name(); }

  ag::variable_list apply(ag::variable_list&& grads) override {
    const auto [product, first, second] = saved();
    return gradients(product, grads[0], first, second);
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for_each_saved([](ag::SavedVariable& saved) { saved.reset_data(); });
  }

  void compiled_args(dynamo::CompiledNodeArgs& args) const override {
    args.collect(first_, /*is_output=*/false);
    args.collect(second_, /*is_output=*/false);
    for (const auto& tensor : pattern_) args.collect(tensor, /*is_output=*/false);
    for (const c10::SymInt& size : product_.layout.sizes) args.collect(size);
    product_.collect(args);
  }

  ag::variable_list apply_with_saved(const ag::variable_list& grads, dynamo::SwapSavedVariables& swap) override {
    c10::SymDimVector& shape = product_.layout.sizes;
    for_each_saved([&](ag::SavedVariable& saved) { swap.before(saved); });
    for (c10::SymInt& size : shape) swap.before(size);
    const auto [product, first, second] = saved();
    std::vector<c10::IValue> arguments{first, second};
    for (const Tensor& tensor : product.layout.tensors) arguments.emplace_back(tensor);
    for (const c10::SymInt& size : product.layout.sizes) arguments.emplace_back(size);
    const auto call = [product = product](const ag::variable_list& inputs, const std::vector<c10::IValue>& packed) {
      Product given = product;
      size_t next = 2;
      for (Tensor& tensor : given.layout.tensors) tensor = packed[next++].toTensor();
      for (c10::SymInt& size : given.layout.sizes) size = packed[next++].toSymInt();
      return gradients(given, inputs[0], packed[0].toTensor(), packed[1].toTensor());
    };
    auto results = record_call(*this, swap, grads, arguments, call);
    for_each_saved([&](ag::SavedVariable& saved) { swap.after(saved); });
    for (c10::SymInt& size : shape) swap.after(size);
    return results;
  }

 private:
  template <class Use>
  void for_each_saved(const Use& use) {
    use(first_);
    use(second_);
    for (auto& tensor : pattern_) use(tensor);
  }

  std::tuple<Product, Tensor, Tensor> saved() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Product product = product_;
    for (size_t i = 0; i < pattern_.size(); ++i) product.layout.tensors[i] = pattern_[i].unpack();
    return {std::move(product), task_should_compute_output(1) ? first_.unpack() : Tensor(),
            task_should_compute_output(0) ? second_.unpack() : Tensor()};
  }

  Product product_;  // its pattern's tensors are those of pattern_, which an in-place change makes an error
  ag::SavedVariable first_, second_;  // empty where nobody can want the other one's gradient
  std::vector<ag::SavedVariable> pattern_;
};

bool has_derivatives(const Tensor& first, const Tensor& second) {
  return ag::isFwGradDefined(first) || ag::isFwGradDefined(second) ||
         (c10::GradMode::is_enabled() && (first.requires_grad() || second.requires_grad()));
}

template <class Product>
Tensor with_derivatives(Tensor result, Product product, const Tensor& first, const Tensor& second) {
  if (ag::isFwGradDefined(first) || ag::isFwGradDefined(second)) {
    const auto multiply = [&](const Tensor& a, const Tensor& b) { return product.forward(a, b); };
    result._set_fw_grad(tangent_of_product(multiply, first, second), /*level=*/0, /*is_inplace_op=*/false);
  }
  if (c10::GradMode::is_enabled() && (first.requires_grad() || second.requires_grad())) {
    ag::set_history(result, make_node<ProductBackward<Product>>(std::move(product), first, second));
  }
  return result;
}

}  // namespace

Tensor mm_autograd(c10::DispatchKeySet keys, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                   Sizes shape, bool transpose) {
  Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    result = mm().redispatch(keys & c10::after_autograd_keyset, dense, values, pattern, shape, transpose);
  }
  if (!has_derivatives(dense, values)) return result;
  return with_derivatives(std::move(result), Mm(values, pattern, shape, transpose), dense, values);
}

Tensor sdd_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                    at::IntArrayRef block_shape) {
  Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    result = sdd().redispatch(keys & c10::after_autograd_keyset, a, b, pattern, shape, block_shape);
  }
  if (!has_derivatives(a, b)) return result;
  Sdd product{{pattern.vec(), {shape.begin(), shape.end()}}, {block_shape.begin(), block_shape.end()}};
  return with_derivatives(std::move(result), std::move(product), a, b);
}

}  // namespace torch_slang::block_sparse
