#include "compiler/emit/refused_lost_values.h"

#include <c10/util/StringUtil.h>

#include <set>
#include <string>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/gradient_flow.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

// `T x;` or `T x = {};`
bool declares_nothing(const EmittedCode& code, const EmittedStatement& statement, const Assignment& found) {
  if (found.kind != Assignment::Kind::Declare || code[statement.span.begin].starts_with(kContext)) return false;
  return found.value.size() == 0 || code.text_without_spaces(found.value) == "{}";
}

std::set<std::string> never_stored(const EmittedCode& code, const EmittedFunction& function) {
  std::set<std::string> empty, stored;
  for_each_simple(function.body, [&](const EmittedStatement& statement) {
    const auto found = code.assignment(statement);
    for (std::string& name : code.handed_on(statement.span)) stored.insert(std::move(name));
    if (!found || found->kind == Assignment::Kind::Other) return;
    (declares_nothing(code, statement, *found) ? empty : stored).insert(found->left.variable);
  });
  for (const std::string& name : stored) empty.erase(name);
  return empty;
}

void check(const EmittedCode& code, const EmittedFunction& function, const EmittedStatement& statement,
           const std::set<std::string>& empty) {
  const auto found = code.assignment(statement);
  const bool is_known = found && found->kind != Assignment::Kind::Other;
  const Span value = is_known ? found->value : statement.span;
  if (is_known && lvalue_of(code, value)) return;  // a copy
  for (size_t at = value.begin; at < value.end; ++at) {
    if (!code.is_name(at) || code.is_member(at) || empty.count(std::string(code[at])) == 0) continue;
    throw RefusedText{
        c10::str("Slang's derivative of ", users_name(function.name),
                 " has lost a value that it multiplies a gradient with (near ", code.said_place(statement.span.begin),
                 "); write numbers beside vectors as vectors (`v * float3(s)`), and compute what a loop gives in a "
                 "function of its own")};
  }
}

}  // namespace

void refuse_lost_values(const EmittedCode& code) {
  for (const EmittedFunction& function : code.functions()) {
    if (!function.name.starts_with(kBackward)) continue;
    const std::set<std::string> empty = never_stored(code, function);
    if (empty.empty()) continue;
    for_each_simple(function.body, [&](const EmittedStatement& statement) { check(code, function, statement, empty); });
  }
}

}  // namespace torch_slang
