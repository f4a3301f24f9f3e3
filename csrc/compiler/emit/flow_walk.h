// Forward dataflow analysis over a function's emitted text: the base of analyses that say for each statement which facts hold
// there. A derived class is the transfer function of a statement.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Walks through a function's statements in the order in which they may run. Where paths meet, their states are joined; a loop
// is walked to a fixpoint. `State` has join(other) and ==. Unreachable statements are left out.
template <class State>
class FlowWalk {
 public:
  FlowWalk(const FlowWalk&) = delete;
  FlowWalk& operator=(const FlowWalk&) = delete;

 protected:
  explicit FlowWalk(const EmittedCode& code) : code_(code) {}
  virtual ~FlowWalk() = default;

  virtual void simple(const EmittedStatement& statement, State& state) = 0;
  // The condition of a branch, or the head of a loop.
  virtual void head(Span, const State&) {}
  // Whether the state is all that is known here: no loop around has still to learn something.
  bool is_final() const { return learning_ == 0; }

  void follow(const EmittedStatement& body, State state) {
    Reached reached = std::move(state);
    walk(body, reached);
  }

  const EmittedCode& code_;

 private:
  using Kind = EmittedStatement::Kind;
  using Reached = std::optional<State>;  // none: nothing reaches this

  // A loop or a switch that the walk is in.
  struct Inside {
    bool is_loop;
    Reached entry;  // a switch's head: where its labels come from
    Reached left, again;  // at `break`, at `continue`
    bool has_default = false;
  };

  static void join(Reached& one, const Reached& other) {
    if (one && other)
      one->join(*other);
    else if (other)
      one = other;
  }

  void walk(const EmittedStatement& statement, Reached& state) {
    switch (statement.kind) {
      case Kind::Block:
        for (const EmittedStatement& part : statement.parts) walk(part, state);
        return;
      case Kind::If: return branch(statement, state);
      case Kind::For:
      case Kind::While:
      case Kind::DoWhile: return loop(statement, state);
      case Kind::Switch: return cases(statement, state);
      default: return single(statement, state);
    }
  }

  void single(const EmittedStatement& statement, Reached& state) {
    if (statement.kind == Kind::Case) {
      if (inside_.empty()) return;
      join(state, inside_.back().entry);
      inside_.back().has_default |= statement.head.size() == 0;
      return;
    }
    if (!state) return;
    if (statement.kind == Kind::Break && !inside_.empty()) {
      join(inside_.back().left, state);
    } else if (statement.kind == Kind::Continue) {
      for (size_t i = inside_.size(); i-- > 0;) {
        if (!inside_[i].is_loop) continue;
        join(inside_[i].again, state);
        break;
      }
    } else {
      simple(statement, *state);
      if (statement.kind != Kind::Return) return;
    }
    state.reset();
  }

  void branch(const EmittedStatement& statement, Reached& state) {
    if (!state) return;
    head(statement.head, *state);
    Reached otherwise = state;
    walk(statement.parts[0], state);
    if (statement.parts.size() > 1) walk(statement.parts[1], otherwise);
    join(state, otherwise);
  }

  void loop(const EmittedStatement& statement, Reached& state) {
    if (!state) return;
    ++learning_;
    for (bool more = true; more;) {
      const Reached before = state;
      iterate(statement, state);
      more = !(before == state);
    }
    --learning_;
    const Reached left = iterate(statement, state);
    if (statement.kind == Kind::For && statement.head.size() == 2) state.reset();  // left by `break` alone
    join(state, left);
  }

  // Joins the state behind an iteration to the state before it, and returns the state at its `break`s.
  Reached iterate(const EmittedStatement& statement, Reached& state) {
    inside_.push_back({true, {}, {}, {}});
    Reached after = state;
    head(statement.head, *after);
    walk(statement.parts[0], after);
    const Inside inside = std::move(inside_.back());
    inside_.pop_back();
    join(after, inside.again);
    if (after) head(statement.head, *after);
    join(state, after);
    return inside.left;
  }

  void cases(const EmittedStatement& statement, Reached& state) {
    if (!state) return;
    head(statement.head, *state);
    inside_.push_back({false, state, {}, {}});
    Reached at_end;
    walk(statement.parts[0], at_end);
    const Inside inside = std::move(inside_.back());
    inside_.pop_back();
    if (inside.has_default) state.reset();
    join(state, at_end);
    join(state, inside.left);
  }

  std::vector<Inside> inside_;
  int learning_ = 0;
};

}  // namespace torch_slang
