// Where control can go from a statement, and whether a wave's mask has uses on the way: by it the pass of wave_masks.h knows where the
// mask is live, and where lanes come together again.
//
// Note [two flow analyses]
//   flow_walk.h carries facts along the paths of a function, to a fixpoint. This one knows no facts: it sums up a
//   statement by itself, with the jumps that leave it counted, and is asked for any statement and in any order.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

struct Flow {
  bool ends = true;  // it may come to its end, and what follows it is next
  bool uses = false;  // somewhere in it the mask is used
  int breaks = 0, continues = 0, returns = 0;  // jumps out of it, of each kind

  bool leaves() const { return breaks + continues + returns > 0; }
};

// One `{ }` of a switch, and the labels in front of it: of `default` an empty one.
struct SwitchCase {
  std::vector<Span> labels;
  const EmittedStatement* block;
};

// Only these forms of a function are known where lanes meet: blocks, `if` with braces, `for(;;)`, `switch` whose cases have braces.
// Throws UnknownForm for others.
void check_forms(const EmittedStatement& statement);
std::vector<SwitchCase> cases_of(const EmittedStatement& selection);
// The lists of statements that a statement consists of, each a block: itself, the arms, the loop's body, the cases.
std::vector<const EmittedStatement*> lists_of(const EmittedStatement& statement);

class ControlFlow {
 public:
  // `uses`: the tokens of the function where the mask is used, in order.
  explicit ControlFlow(std::vector<size_t> uses) : uses_(std::move(uses)) {}

  Flow of(const EmittedStatement& statement);
  bool uses(Span span) const;
  // Those of the switch's cases together; it `ends` where a selector may meet no case, too.
  Flow of_cases(const EmittedStatement& selection);

 private:
  Flow compute(const EmittedStatement& statement);
  Flow of_list(const EmittedStatement& block);

  const std::vector<size_t> uses_;
  std::unordered_map<const EmittedStatement*, Flow> known_;
};

}  // namespace torch_slang
