// Slang writes some statements of a function more than once. Where they hold wave operations, lanes that are in any of the
// copies are together all the same.
//
// Note [repeated operations]
//   What follows an iteration of a loop (the third clause of `for`, the condition of `do`) stands in front of each `continue`, and at
//   the end of the body. Where a case falls into the next one, that one's statements may stand at the end of both, and once
//   more for each of its labels. What follows a statement may stand inside it too, where a path leads there that is none of its
//   ends. So lanes come together in front of the first wave operation that all these copies have.
//   A copy is identified by the variable that it declares, as names are unique. A call without a result is identified by its text, which
//   has the variable of Slang's mask in it: each branch has one of its own, but cases of a switch share theirs. There the next
//   variable that is declared behind the call tells copies from calls that the user wrote twice.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/emit/control_flow.h"

namespace torch_slang {

// In front of a statement of a list lanes meet those that come there by other lists. `meeting` is the same for all of these:
// the body of the loop whose iteration ends, the last statement of a Tail, or one of meetings_of_case.
struct Join {
  size_t statement;
  const void* meeting;
};

// Lanes that reach the list's statement `first` together meet again in front of its statement `last`, or of a copy on the path.
struct Tail {
  size_t first, last;
};

// Lists of statements are blocks.
class RepeatedOperations {
 public:
  // Throws UnknownForm if there are copies of another kind.
  RepeatedOperations(const EmittedCode& code, const EmittedStatement& root, ControlFlow& flow);

  // In the order in which lanes meet there.
  const std::vector<Join>& joins_in(const EmittedStatement& list) const;
  // The meetings of a case's lanes with those of other cases, in this case or in one that it falls into; some lie inside
  // statements. Lanes come to them in this order, which is the same in every case.
  std::vector<const void*> meetings_of_case(const EmittedStatement& part) const;
  // Their `meeting` is the statement `last`. Those that end last come first.
  const std::vector<Tail>& tails_of(const EmittedStatement& list) const;
  bool empty() const { return joins_.empty(); }

 private:
  struct Position {
    const EmittedStatement* list;
    size_t statement;

    auto operator<=>(const Position&) const = default;
  };
  struct Operation {
    size_t token;
    std::string key;
    bool names_variable;  // one of its own, or one behind it
    Position position;
  };
  // Statements of a list, from `begin` on and before `end`.
  struct Part {
    const EmittedStatement* list;
    size_t begin, end;
  };
  using Positions = std::map<std::string, std::vector<size_t>>;  // of each key, the statements of a list that hold it
  using Keys = std::set<std::string>;

  void collect(const EmittedStatement& list);
  std::string text_of(const EmittedStatement& statement) const;
  std::string_view mask_of_cases(const EmittedStatement& selection) const;
  bool may_be_two(const Operation& operation, const EmittedStatement& selection) const;
  std::string declared(const EmittedStatement& statement) const;
  Positions positions_in(const Part& part) const;
  static Part whole(const EmittedStatement& list) { return {&list, 0, list.parts.size()}; }

  std::vector<const Operation*> operations(const std::string& key, Span tokens) const;
  size_t depth_of(const std::string& key, const EmittedStatement& list) const;
  std::set<Position> copies_of(const std::string& key, const Position& position, const EmittedStatement& list,
                               Span tokens) const;

  // `known`: keys whose copies in there are accounted for.
  void find_joins(const Part& part, const Keys& known);
  Keys join_tails(const Part& part, Keys known);
  void join_iterations(const EmittedStatement& body, const Keys& known);
  void join_cases(const EmittedStatement& selection, const Keys& known);
  void join_falls(const std::vector<const EmittedStatement*>& parts);
  void check_arms(const EmittedStatement& branch, const Keys& known) const;
  void find_paths(const EmittedStatement& list, bool is_body, std::vector<Part>& paths) const;
  void add_join(const EmittedStatement& list, Join join);
  void add_tail(const EmittedStatement& list, Tail tail);
  [[noreturn]] void refuse(const std::string& key) const;

  const EmittedCode& code_;
  ControlFlow& flow_;
  std::vector<Operation> operations_;  // in the text's order
  std::map<const EmittedStatement*, Position> around_;  // the statement that a list is a part of
  std::map<const EmittedStatement*, std::vector<Join>> joins_;
  std::map<const EmittedStatement*, std::set<const void*>> meetings_;  // of each case
  std::map<const void*, size_t> orders_;  // the last token where lanes meet
  std::map<const EmittedStatement*, std::vector<Tail>> tails_;
  std::set<std::vector<const EmittedStatement*>> groups_;  // of cases: an element's address stands for their meeting
};

}  // namespace torch_slang
