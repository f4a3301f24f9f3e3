// Slang writes some statements of a function twice. Where they hold wave operations, lanes that are in either copy are
// together all the same.
//
// Note [repeated operations]
//   What follows a turn of a loop (the third clause of `for`, the condition of `do`) stands in front of each `continue`, and at
//   the end of the body. So lanes come together in front of the first wave operation that all these places have.
//   A copy is known by the variable that it declares, as names are unique; a call without a result by its text and line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/control_flow.h"
#include "compiler/statement_tree.h"

namespace torch_slang {

class RepeatedOperations {
 public:
  RepeatedOperations(const std::vector<Token>& tokens, const StatementList& root, ControlFlow& flow);

  // The first statement of the list that belongs to what follows a turn; the number of statements if none does.
  size_t begin_in(const StatementList& list) const;
  // Throws UnknownForm if some copies are of another kind.
  void check_all_found() const;

 private:
  struct Operation {
    size_t token;
    std::string key;
    bool declares;
  };
  // A list that leads to the next turn. Its statements from `begin` on are in no other such list, and before `end`.
  struct Way {
    const StatementList* list;
    size_t begin, end;
  };

  void collect(const StatementList& list, ControlFlow& flow);
  void add(const Statement& statement);
  void find_turns(const StatementList& list, ControlFlow& flow);
  void find_ways(const StatementList& list, bool is_body, ControlFlow& flow, std::vector<Way>& ways) const;
  void join(const std::vector<Way>& ways);
  std::map<std::string, std::vector<size_t>> keys_of(const Way& way) const;
  void check_cases(const Statement& selection);

  const std::vector<Token>& tokens_;
  std::vector<Operation> operations_;  // in the text's order
  std::map<std::string, int> counts_;  // of keys, less those that are joined
  std::map<const StatementList*, size_t> begins_;
};

}  // namespace torch_slang
