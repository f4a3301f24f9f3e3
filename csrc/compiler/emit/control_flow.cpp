#include "compiler/emit/control_flow.h"

#include <algorithm>

namespace torch_slang {
namespace {

void add_jumps(Flow& flow, const Flow& other) {
  flow.uses = flow.uses || other.uses;
  flow.breaks += other.breaks;
  flow.continues += other.continues;
  flow.returns += other.returns;
}

bool has_default(const Statement& selection) {
  for (const auto& labels : selection.labels) {
    if (std::any_of(labels.begin(), labels.end(), [](TokenRange label) { return label.empty(); })) return true;
  }
  return false;
}

}  // namespace

bool ControlFlow::uses(TokenRange range) const {
  const auto first = std::lower_bound(uses_.begin(), uses_.end(), range.begin);
  return first != uses_.end() && *first < range.end;
}

Flow ControlFlow::of(const Statement& statement) {
  const auto known = known_.find(&statement);
  if (known != known_.end()) return known->second;
  return known_[&statement] = compute(statement);
}

// Statements behind one that never ends are unreachable, and count for nothing.
Flow ControlFlow::of(const StatementList& list) {
  Flow flow;
  for (const Statement& statement : list.statements) {
    const Flow one = of(statement);
    add_jumps(flow, one);
    flow.ends = one.ends;
    if (!flow.ends) break;
  }
  return flow;
}

Flow ControlFlow::of_cases(const Statement& selection) {
  Flow flow;
  flow.ends = selection.parts.empty() || !has_default(selection);
  for (const StatementList& part : selection.parts) add_jumps(flow, of(part));
  if (!selection.parts.empty()) flow.ends = flow.ends || of(selection.parts.back()).ends;
  return flow;
}

Flow ControlFlow::compute(const Statement& statement) {
  Flow flow;
  switch (statement.kind) {
    case Statement::Kind::Plain: break;
    case Statement::Kind::Break: flow.breaks = 1; break;
    case Statement::Kind::Continue: flow.continues = 1; break;
    case Statement::Kind::Return: flow.returns = 1; break;
    case Statement::Kind::Block: return of(statement.parts[0]);
    case Statement::Kind::If: {
      flow.ends = statement.parts.size() == 1;
      for (const StatementList& part : statement.parts) {
        const Flow arm = of(part);
        add_jumps(flow, arm);
        flow.ends = flow.ends || arm.ends;
      }
      flow.uses = flow.uses || uses(statement.head);
      return flow;
    }
    case Statement::Kind::Loop: {
      const Flow body = of(statement.parts[0]);
      flow.ends = body.breaks > 0;
      flow.uses = body.uses;
      flow.returns = body.returns;
      return flow;
    }
    case Statement::Kind::Switch: {
      flow = of_cases(statement);
      flow.ends = flow.ends || flow.breaks > 0;
      flow.breaks = 0;
      flow.uses = flow.uses || uses(statement.head);
      return flow;
    }
  }
  flow.ends = !flow.leaves();
  flow.uses = uses(statement.tokens);
  return flow;
}

}  // namespace torch_slang
