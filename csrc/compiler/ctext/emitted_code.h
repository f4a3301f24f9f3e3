// Emitted text as tokens and as a tree, for passes that need to know what runs after what.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ctext/lvalues.h"
#include "compiler/ctext/reader.h"
#include "compiler/ctext/tree.h"
#include "compiler/text/code.h"

namespace torch_slang {

// A field that Slang calls `differential` holds a gradient in a backward, and a tangent in a forward derivative; in the
// backward of a forward derivative it holds either.
enum class Differentials { Gradients, Tangents };

class EmittedCode : public Code {
 public:
  // `differentials`: whether the text's fields called `differential` hold gradients or tangents.
  explicit EmittedCode(std::string text, Differentials differentials = Differentials::Gradients)
      : Code(std::move(text)), differentials_(differentials) {}

  Differentials differentials() const { return differentials_; }
  const std::vector<EmittedFunction>& functions() const { return tree().functions; }
  const std::vector<EmittedStruct>& structs() const { return tree().structs; }
  // The assignment that a statement of this text is; null if the statement is no assignment.
  const Assignment* assignment(const EmittedStatement& statement) const;
  // The variables whose address a call is given.
  std::vector<std::string> handed_on(Span span) const;
  // Outside of functions: Note [strict reading].
  const std::optional<UnknownForm>& unknown() const { return tree().unknown; }

 private:
  const EmittedTree& tree() const {
    if (!tree_) tree_ = read_tree(*this);
    return *tree_;
  }

  const Differentials differentials_;
  // Made when they are asked for; assignments by the statement's first token.
  mutable std::optional<EmittedTree> tree_;
  mutable std::unordered_map<size_t, std::optional<Assignment>> assignments_;
};

}  // namespace torch_slang
