// The graph node of a recorded call of `<name>_backward`: Note [second derivatives] in derived_calls.h.
#pragma once

#include <c10/util/ArrayRef.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <string>
#include <vector>

#include "gradients/autograd_node.h"
#include "gradients/derived_calls.h"

namespace torch_slang {

class SecondNode final : public torch::autograd::Node {
 public:
  // `arguments` of a backward that has run.
  SecondNode(const RegisteredFamily& family, std::shared_ptr<const Operator> op, c10::ArrayRef<c10::IValue> arguments);

  // Connects the results that are defined to this node (`self` holds it).
  void set_results(c10::ArrayRef<c10::IValue> results, const NodePtr<SecondNode>& self);

  std::string name() const override;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override;
  void release_variables() override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(const torch::autograd::variable_list& inputs,
                                                  torch::dynamo::autograd::SwapSavedVariables& saved) override;

 private:
  // The arguments of the backward op, its mask left out, and then which gradients are wanted, one for each edge.
  std::vector<c10::IValue> recorded_arguments();

  const RegisteredFamily& family_;
  const std::shared_ptr<const Operator> op_;
  std::vector<torch::autograd::SavedVariable> saved_;  // by argument of the backward op; empty for numbers and the mask
  std::vector<c10::IValue> numbers_;  // by argument of the backward op
};

}  // namespace torch_slang
