// The graph node of a recorded call. It keeps the Operator it was recorded with, whatever is reloaded later.
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable_info.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "operators/registered_op.h"

namespace torch_slang {

// torch 2.12 and later hold nodes by intrusive_ptr, earlier ones by shared_ptr.
constexpr bool kNodesAreIntrusive =
    std::is_same_v<decltype(torch::autograd::Edge::function), c10::intrusive_ptr<torch::autograd::Node>>;
template <class T>
using NodePtr = std::conditional_t<kNodesAreIntrusive, c10::intrusive_ptr<T>, std::shared_ptr<T>>;

template <class T, class... Args>
NodePtr<T> make_node(Args&&... args) {
  if constexpr (kNodesAreIntrusive) {
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
  } else {
    return NodePtr<T>(new T(std::forward<Args>(args)...), [](T* node) { deleteNode(node); });  // torch's own, by ADL
  }
}

// An input as a node keeps it. PyTorch saves no inference tensor, since it has no versions by which a later change would be
// noticed: of one that needs no gradient the node has a copy.
torch::autograd::SavedVariable save_input(const at::Tensor& tensor);

// What a node's apply_with_saved gives: compiled autograd records a call of `apply` with these gradients and arguments. It
// captures with tensors that have no shapes yet, so apply must not run there.
using NodeFunction = std::function<torch::autograd::variable_list(const torch::autograd::variable_list& grads,
                                                                  const std::vector<c10::IValue>& arguments)>;
torch::autograd::variable_list record_call(const torch::autograd::Node& node,
                                           torch::dynamo::autograd::SwapSavedVariables& swap,
                                           const torch::autograd::variable_list& grads,
                                           const std::vector<c10::IValue>& arguments, NodeFunction apply);

// Leaves that a forward changes, and that have gradients then.
std::vector<int> changed_leaves(const Signature& signature);

class BackwardNode final : public torch::autograd::Node {
 public:
  // `arguments` of a forward that has run. Inputs that the backward kernel does not look at are not
  // kept alive.
  BackwardNode(const RegisteredFamily& family, std::shared_ptr<const Operator> op,
               c10::ArrayRef<c10::IValue> arguments);

  // Connects the results to this node (`self` holds it), and behind them those arguments that the forward has changed.
  void set_results(c10::ArrayRef<c10::IValue> results, c10::ArrayRef<c10::IValue> arguments,
                   const NodePtr<BackwardNode>& self);

  std::string name() const override;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override;
  void release_variables() override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(const torch::autograd::variable_list& inputs,
                                                  torch::dynamo::autograd::SwapSavedVariables& saved) override;

 private:
  // Arguments of the backward op but for the gradients.
  std::vector<c10::IValue> recorded_arguments();

  const RegisteredFamily& family_;
  const std::shared_ptr<const Operator> op_;
  std::vector<torch::autograd::SavedVariable> saved_;    // by leaf; empty for numbers and outputs
  std::vector<c10::IValue> numbers_;                      // by leaf
  c10::IValue sample_dims_;                               // of an operator for calls under vmap
  std::vector<torch::autograd::VariableInfo> results_;    // by result: to materialise undefined gradients
};

}  // namespace torch_slang
