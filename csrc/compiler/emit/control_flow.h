// Where control can go from a statement, and whether a wave's mask is needed on the way. The pass of wave_masks.h decides by it
// where lanes come together again.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/emit/statement_tree.h"

namespace torch_slang {

struct Flow {
  bool ends = true;  // it may come to its end, and what follows it is next
  bool uses = false;  // somewhere in it the mask is needed
  int breaks = 0, continues = 0, returns = 0;  // jumps out of it, of each kind

  bool leaves() const { return breaks + continues + returns > 0; }
};

class ControlFlow {
 public:
  // `uses`: the tokens of the function where the mask is needed, in order.
  explicit ControlFlow(std::vector<size_t> uses) : uses_(std::move(uses)) {}

  Flow of(const Statement& statement);
  Flow of(const StatementList& list);
  bool uses(TokenRange range) const;
  // Those of the switch's cases together; it `ends` where a selector may meet no case, too.
  Flow of_cases(const Statement& selection);

 private:
  Flow compute(const Statement& statement);

  const std::vector<size_t> uses_;
  std::unordered_map<const Statement*, Flow> known_;
};

}  // namespace torch_slang
