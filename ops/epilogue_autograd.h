// The graph node of a recorded product with an epilogue, whatever is multiplied. The function's own backward operator gives, in
// one kernel, the gradients of the sum and of the arguments, those of broadcast arguments summed; the product's own rule gives
// those of its operands from that of the sum.
//
// The node is differentiable: sum is a result of the recorded operator, and the function's backward operator and the product
// have derivatives of their own. Where an operand or an argument has a tangent, the product and the function are two calls.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "epilogue.h"
#include "gradients/autograd_node.h"
#include "product_rule.h"

namespace torch_slang::product {

// The function that a forward was recorded with, whatever is reloaded later.
struct RecordedFunction {
  RecordedFunction(const Epilogue& epilogue, const Tensor& first);

  bool is_differentiable(size_t argument) const { return op->signature().function.leaves[argument + 1].differentiable; }

  const RegisteredFamily& family;
  std::shared_ptr<const Operator> op;
};

// Whether forward mode is asked.
bool has_tangent(const Tensor& first, const Tensor& second, at::TensorList arguments);

// The function of a product, with derivatives of all kinds.
Tensor function_of(const Epilogue& epilogue, const Tensor& sum, at::TensorList arguments);

// Whether a product of these operands and arguments wants a node.
bool is_recorded(const Epilogue& epilogue, const Tensor& first, const Tensor& second, at::TensorList arguments);

// What the function's backward looks at. `wanted`: the gradients of both operands and of each argument.
struct FunctionInputs {
  Tensor sum;
  std::vector<Tensor> arguments;
  std::vector<bool> wanted;
};

// Of sum, then of each argument; undefined where not wanted. `grads`: of the result and of sum.
torch::autograd::variable_list gradients_of_function(const RecordedFunction& function,
                                                     const torch::autograd::variable_list& grads,
                                                     const FunctionInputs& inputs);

// `Product`: the operands and their product. It has
//   layout                                         a ProductLayout
//   of_first(grad, second), of_second(grad, first)  the gradients of its operands from that of the product
//   collect(args)                                  what else of it compiled autograd must know
template <class Product>
class EpilogueBackward final : public torch::autograd::Node {
  using SavedVariable = torch::autograd::SavedVariable;
  using variable_list = torch::autograd::variable_list;

 public:
  EpilogueBackward(RecordedFunction function, Product product, const Tensor& first, const Tensor& second,
                   at::TensorList arguments)
      : function_(std::move(function)), product_(std::move(product)) {
    set_next_edges(edges_to(first, second, arguments));
    if (should_compute_output(1)) first_ = save_input(first);
    if (should_compute_output(0)) second_ = save_input(second);
    for (const Tensor& argument : arguments) arguments_.push_back(save_input(argument));
    for (const Tensor& tensor : product_.layout.tensors) tensors_.push_back(save_input(tensor));
  }

  // After this node has become the results' history.
  void save_sum(const Tensor& sum) { sum_ = SavedVariable(sum, /*is_output=*/true); }

  std::string name() const override { return "Slang_" + function_.op->signature().function.name + "_product_Backward"; }

  variable_list apply(variable_list&& grads) override { return gradients(function_, grads, saved()); }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for_each_saved([](SavedVariable& saved) { saved.reset_data(); });
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(reinterpret_cast<uint64_t>(function_.op.get()));  // another Program, another graph
    args.collect(first_, /*is_output=*/false);
    args.collect(second_, /*is_output=*/false);
    args.collect(sum_, /*is_output=*/true);
    for (const auto& argument : arguments_) args.collect(argument, /*is_output=*/false);
    for (const auto& tensor : tensors_) args.collect(tensor, /*is_output=*/false);
    for (const c10::SymInt& size : product_.layout.sizes) args.collect(size);
    product_.collect(args);
  }

  variable_list apply_with_saved(const variable_list& grads,
                                 torch::dynamo::autograd::SwapSavedVariables& swap) override {
    c10::SymDimVector& sizes = product_.layout.sizes;
    for_each_saved([&](SavedVariable& saved) { swap.before(saved); });
    for (c10::SymInt& size : sizes) swap.before(size);
    const Saved now = saved();
    const auto call = [function = function_, product = now.product, wanted = now.function.wanted](
                          const variable_list& inputs, const std::vector<c10::IValue>& values) {
      return gradients(function, inputs, unpacked(product, wanted, values));
    };
    auto results = record_call(*this, swap, grads, packed(now), call);
    for_each_saved([&](SavedVariable& saved) { swap.after(saved); });
    for (c10::SymInt& size : sizes) swap.after(size);
    return results;
  }

 private:
  // Operands are undefined unless the other one's gradient is wanted.
  struct Saved {
    Product product;
    Tensor first, second;
    FunctionInputs function;
  };

  static variable_list gradients(const RecordedFunction& function, const variable_list& grads, const Saved& saved) {
    const std::vector<bool>& wanted = saved.function.wanted;
    variable_list of_function = gradients_of_function(function, grads, saved.function), result(wanted.size());
    std::move(of_function.begin() + 1, of_function.end(), result.begin() + 2);
    const Tensor& of_sum = of_function[0];
    if (!of_sum.defined()) return result;
    if (wanted[0]) result[0] = saved.product.of_first(of_sum, saved.second);
    if (wanted[1]) result[1] = saved.product.of_second(of_sum, saved.first);
    return result;
  }

  torch::autograd::edge_list edges_to(const Tensor& first, const Tensor& second, at::TensorList arguments) const {
    torch::autograd::edge_list edges;
    const auto add = [&](const Tensor& tensor, bool differentiable) {
      const bool has_edge = differentiable && tensor.requires_grad();
      edges.push_back(has_edge ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge());
    };
    add(first, true);
    add(second, true);
    for (size_t i = 0; i < arguments.size(); ++i) add(arguments[i], function_.is_differentiable(i));
    return edges;
  }

  template <class Use>
  void for_each_saved(const Use& use) {
    use(first_);
    use(second_);
    use(sum_);
    for (auto& argument : arguments_) use(argument);
    for (auto& tensor : tensors_) use(tensor);
  }

  Saved saved() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Saved result{product_, {}, {}, {}};
    for (size_t i = 0; i < tensors_.size(); ++i) result.product.layout.tensors[i] = tensors_[i].unpack();
    auto& [sum, arguments, wanted] = result.function;
    for (size_t i = 0; i < arguments_.size() + 2; ++i) wanted.push_back(task_should_compute_output(i));
    if (wanted[1]) result.first = first_.unpack();
    if (wanted[0]) result.second = second_.unpack();
    sum = sum_.unpack(pointer_to(this));
    for (const auto& argument : arguments_) arguments.push_back(argument.unpack());
    return result;
  }

  // What compiled autograd may replace, in an order of our own.
  static std::vector<c10::IValue> packed(const Saved& saved) {
    std::vector<c10::IValue> values{saved.first, saved.second, saved.function.sum};
    for (const Tensor& argument : saved.function.arguments) values.emplace_back(argument);
    for (const Tensor& tensor : saved.product.layout.tensors) values.emplace_back(tensor);
    for (const c10::SymInt& size : saved.product.layout.sizes) values.emplace_back(size);
    return values;
  }
  static Saved unpacked(const Product& product, const std::vector<bool>& wanted,
                        const std::vector<c10::IValue>& values) {
    Saved saved{product, values[0].toTensor(), values[1].toTensor(), {values[2].toTensor(), {}, wanted}};
    size_t next = 3;
    while (saved.function.arguments.size() + 2 < wanted.size()) {
      saved.function.arguments.push_back(values[next++].toTensor());
    }
    for (Tensor& tensor : saved.product.layout.tensors) tensor = values[next++].toTensor();
    for (c10::SymInt& size : saved.product.layout.sizes) size = values[next++].toSymInt();
    return saved;
  }

  template <class Node>
  static auto pointer_to(Node* node) {
    if constexpr (kNodesAreIntrusive)
      return c10::intrusive_ptr<torch::autograd::Node>::reclaim_copy(node);
    else
      return node->shared_from_this();
  }

  const RecordedFunction function_;
  Product product_;  // its tensors are those of tensors_, which an in-place change makes an error
  SavedVariable first_, second_;  // empty where nobody can want the other one's gradient
  SavedVariable sum_;
  std::vector<SavedVariable> arguments_, tensors_;
};

// The results (y, sum) of a forward, with a node if they want one. `make_product()`: the operands.
template <class MakeProduct>
TensorPair with_history(TensorPair results, const Epilogue& epilogue, const MakeProduct& make_product,
                        const Tensor& first, const Tensor& second, at::TensorList arguments) {
  if (!is_recorded(epilogue, first, second, arguments)) return results;
  using Backward = EpilogueBackward<decltype(make_product())>;
  const auto node = make_node<Backward>(RecordedFunction(epilogue, first), make_product(), first, second, arguments);
  torch::autograd::set_history(std::get<0>(results), node);
  torch::autograd::set_history(std::get<1>(results), node);
  node->save_sum(std::get<1>(results));
  return results;
}

}  // namespace torch_slang::product
