#include "compiler/emit/control_flow.h"

#include <algorithm>

namespace torch_slang {
namespace {

using Kind = EmittedStatement::Kind;

void add_jumps(Flow& flow, const Flow& other) {
  flow.uses = flow.uses || other.uses;
  flow.breaks += other.breaks;
  flow.continues += other.continues;
  flow.returns += other.returns;
}

bool has_default(const EmittedStatement& selection) {
  const auto& parts = selection.parts[0].parts;
  return std::ranges::any_of(
      parts, [](const EmittedStatement& part) { return part.kind == Kind::Case && part.head.size() == 0; });
}

void expect(bool is_known, const EmittedStatement& statement) {
  if (!is_known) throw UnknownForm{statement.span.begin};
}

// Labels, a block, and so on.
void check_cases(const EmittedStatement& body) {
  bool is_labelled = false;
  for (const EmittedStatement& part : body.parts) {
    expect(part.kind == Kind::Case || (part.kind == Kind::Block && is_labelled), part);
    is_labelled = part.kind == Kind::Case;
  }
  expect(!is_labelled, body);
}

}  // namespace

void check_forms(const EmittedStatement& statement) {
  const bool is_list = statement.kind == Kind::Block;
  if (statement.kind == Kind::For) expect(statement.head.size() == 2, statement);
  expect(statement.kind != Kind::While && statement.kind != Kind::DoWhile, statement);
  for (const EmittedStatement& part : statement.parts) {
    expect(is_list ? part.kind != Kind::Case : part.kind == Kind::Block, part);
    if (statement.kind != Kind::Switch) check_forms(part);
  }
  if (statement.kind != Kind::Switch) return;
  check_cases(statement.parts[0]);
  for (const EmittedStatement* block : lists_of(statement)) check_forms(*block);
}

std::vector<SwitchCase> cases_of(const EmittedStatement& selection) {
  std::vector<SwitchCase> cases;
  std::vector<Span> labels;
  for (const EmittedStatement& part : selection.parts[0].parts) {
    if (part.kind == Kind::Case) {
      labels.push_back(part.head);
    } else {
      cases.push_back({std::move(labels), &part});
      labels.clear();
    }
  }
  return cases;
}

std::vector<const EmittedStatement*> lists_of(const EmittedStatement& statement) {
  if (statement.kind == Kind::Block) return {&statement};
  std::vector<const EmittedStatement*> lists;
  const bool is_switch = statement.kind == Kind::Switch;
  for (const EmittedStatement& part : is_switch ? statement.parts[0].parts : statement.parts) {
    if (part.kind == Kind::Block) lists.push_back(&part);
  }
  return lists;
}

bool ControlFlow::uses(Span span) const {
  const auto first = std::ranges::lower_bound(uses_, span.begin);
  return first != uses_.end() && *first < span.end;
}

Flow ControlFlow::of(const EmittedStatement& statement) {
  const auto known = known_.find(&statement);
  if (known != known_.end()) return known->second;
  return known_[&statement] = compute(statement);
}

// Statements behind one that never ends are unreachable, and count for nothing.
Flow ControlFlow::of_list(const EmittedStatement& block) {
  Flow flow;
  for (const EmittedStatement& statement : block.parts) {
    const Flow one = of(statement);
    add_jumps(flow, one);
    flow.ends = one.ends;
    if (!flow.ends) break;
  }
  return flow;
}

Flow ControlFlow::of_cases(const EmittedStatement& selection) {
  const auto cases = lists_of(selection);
  Flow flow;
  flow.ends = cases.empty() || !has_default(selection);
  for (const EmittedStatement* one : cases) add_jumps(flow, of(*one));
  if (!cases.empty()) flow.ends = flow.ends || of(*cases.back()).ends;
  return flow;
}

Flow ControlFlow::compute(const EmittedStatement& statement) {
  Flow flow;
  switch (statement.kind) {
    case Kind::Block: return of_list(statement);
    case Kind::If: {
      flow.ends = statement.parts.size() == 1;
      for (const EmittedStatement& part : statement.parts) {
        const Flow arm = of(part);
        add_jumps(flow, arm);
        flow.ends = flow.ends || arm.ends;
      }
      flow.uses = flow.uses || uses(statement.head);
      return flow;
    }
    case Kind::For: {
      const Flow body = of(statement.parts[0]);
      flow.ends = body.breaks > 0;
      flow.uses = body.uses;
      flow.returns = body.returns;
      return flow;
    }
    case Kind::Switch: {
      flow = of_cases(statement);
      flow.ends = flow.ends || flow.breaks > 0;
      flow.breaks = 0;
      flow.uses = flow.uses || uses(statement.head);
      return flow;
    }
    case Kind::Break: flow.breaks = 1; break;
    case Kind::Continue: flow.continues = 1; break;
    case Kind::Return: flow.returns = 1; break;
    default: break;
  }
  flow.ends = !flow.leaves();
  flow.uses = uses(statement.span);
  return flow;
}

}  // namespace torch_slang
