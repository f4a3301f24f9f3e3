#include "compiler/emit/missing_names.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <optional>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/gradient_flow.h"
#include "compiler/emit/loop_beginnings.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

bool is_temporary(std::string_view name) {
  return name.size() > 2 && name.starts_with("_S") && name.find_first_not_of("0123456789", 2) == std::string_view::npos;
}

// `int k = _dc_0 * int(-2) + _S14;`: a loop's counter from how often the loop has run.
bool is_counter(const EmittedCode& code, const EmittedStatement& statement) {
  const auto found = code.assignment(statement);
  if (!found) return false;
  for (size_t at = found->value.begin; at < found->value.end; ++at) {
    if (code[at].starts_with("_dc_")) return true;
  }
  return false;
}

constexpr const char* kIndex =
    "the index of an element that is assigned inside another (`b[i][j] = v`); copy the outer element to a variable, "
    "assign to that one's element, and copy it back";
constexpr const char* kBeginning =
    "the first value of a loop's counter; let the counter begin with zero, and add to it in the loop";

}  // namespace

void restore_missing_names(EmittedCode& code) {
  std::optional<LoopBeginnings> beginnings;  // few texts lack a name
  std::set<std::string_view> common;
  for (const EmittedFunction& function : code.functions()) common.insert(function.name);
  for (const EmittedStruct& one : code.structs()) common.insert(one.name);
  for (const EmittedFunction& function : code.functions()) {
    std::set<std::string> declared;
    for (const EmittedParameter& parameter : function.parameters) declared.emplace(parameter.name);
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      const auto found = code.assignment(statement);
      if (found && found->kind == Assignment::Kind::Declare) declared.insert(found->left.variable);
    });
    if (!function.name.starts_with("s_")) continue;  // Slang's own functions alone
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      for (size_t at = statement.span.begin; at < statement.span.end; ++at) {
        if (!code.is_name(at) || code.is_member(at) || !is_temporary(code[at])) continue;
        if (common.count(code[at]) > 0 || declared.count(std::string(code[at])) > 0) continue;
        if (!beginnings) beginnings.emplace(code);
        if (beginnings->restore(function, statement, at)) continue;
        throw RefusedText{c10::str("Slang's derivative of ", users_name(function.name), " lacks ",
                                   is_counter(code, statement) ? kBeginning : kIndex, " (",
                                   code.said_place(statement.span.begin), ")")};
      }
    });
  }
}

}  // namespace torch_slang
