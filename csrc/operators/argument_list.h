// Writes the schema of an operator, argument by argument.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operators/signature.h"

namespace torch_slang {

// A default is only legal where every later argument has one too, or by keyword.
class ArgumentList {
 public:
  void add(const std::string& type, const std::string& name, const std::string& fallback, OpArgument argument);
  // Given by keyword alone, and behind all others.
  void add_keyword(const std::string& type, const std::string& name, const std::string& fallback, OpArgument argument);
  // A tensor that the operator writes, as far as it is given.
  void add_written(const std::string& name, OpArgument argument) { add(written("Tensor"), name, "", argument); }
  void add_optional_written(const std::string& name, OpArgument argument) {
    add(written("Tensor") + "?", name, "", argument);
  }
  void add_written_keyword(const std::string& name, OpArgument argument) {
    add_keyword(written("Tensor") + "?", name, "=None", argument);
  }

  // The operator `name`, with these results. Throws, naming the kernel, for names that schemas cannot have.
  std::unique_ptr<OpSignature> finish(const Signature& signature, const std::string& name, std::vector<int> results) &&;

 private:
  std::string text() const;
  std::string written(const std::string& type) { return type + "(a" + std::to_string(written_++) + "!)"; }

  std::vector<std::pair<std::string, std::string>> items_;
  std::vector<OpArgument> arguments_;
  std::string keywords_;
  int written_ = 0;
};

// What of an op's arguments stands in lists: Note [packed arguments].
std::unique_ptr<const PackedArguments> packed_arguments(const OpSignature& op, const Function& function,
                                                        const std::string& qualified);

// The name of an argument that the function does not have. A parameter of that name goes first.
std::string added_name(const Signature& signature, OpKind kind, const std::string& name);
// Of a leaf's gradient, or its tangent.
std::string gradient_name(const Signature& signature, OpKind kind, int leaf);

// Each output's gradient, then `add_input(leaf)` for each input, then the mask of wanted gradients.
template <class AddInput>
void add_backward(const Signature& signature, ArgumentList& list, const AddInput& add_input) {
  for (const int leaf : signature.grad_outputs) {
    list.add("Tensor", gradient_name(signature, OpKind::Backward, leaf), "", {OpArgument::Role::Gradient, leaf});
  }
  for (size_t i = 0; i < signature.function.leaves.size(); ++i) {
    if (!signature.function.leaves[i].is_output) add_input(static_cast<int>(i));
  }
  list.add("bool[]", added_name(signature, OpKind::Backward, "mask"), "", {OpArgument::Role::Mask, -1});
}

// Whether there is anything that a backward could give, and it is declared to be there.
bool has_backward_op(const Signature& signature);
// "sqr_bwd", or another where the module has something of that name.
std::string free_name(std::string name, const std::set<std::string>& names);

}  // namespace torch_slang
