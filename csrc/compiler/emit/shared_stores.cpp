#include "compiler/emit/shared_stores.h"

#include <c10/util/StringUtil.h>

#include <set>

#include "compiler/emit/gradient_flow.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

constexpr std::string_view kShared = "TSL_SHARED";

// Accessors of group-shared variables of more than one number: Note [members] in emit/members.h.
std::set<std::string_view> shared_aggregates(const EmittedCode& code) {
  std::set<std::string_view> names;
  std::string_view accessor;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at].starts_with("tsl_var_") && code[at + 1] == "(") accessor = code[at];
    if (code[at] != kShared) continue;
    const bool is_aggregate =
        code[at + 1] == "FixedArray" || (code.is_name(at + 1) && code[at + 1].find('_') != std::string_view::npos);
    if (is_aggregate) names.insert(accessor);
  }
  return names;
}

class Repair {
 public:
  Repair(EmittedCode& code, const EmittedFunction& function, const std::set<std::string_view>& shared)
      : code_(code), function_(function), shared_(shared) {
    for_each_simple(function.body, [&](const EmittedStatement& statement) { statements_.push_back(statement.span); });
  }

  void run() {
    for (size_t i = 0; i < statements_.size(); ++i) {
      const size_t equals = assignment_in(statements_[i]);
      if (equals == 0 || !names_shared({statements_[i].begin, equals})) continue;
      // `... = _S1;` where `_S1` is a copy of the same.
      const Span value{equals + 1, statements_[i].end - 1};
      const std::string lvalue = code_.text_without_spaces({statements_[i].begin, equals});
      if (value.size() != 1 || !code_.is_name(value.begin)) continue;
      if (const size_t copy = copy_of(lvalue, code_[value.begin], i); copy < i)
        repair(copy, i, code_[value.begin]);
      else if (whole_variable(lvalue))
        refuse(statements_[i]);
    }
  }

 private:
  // The position of the `=` in an assignment; 0 in any other statement.
  size_t assignment_in(Span statement) const {
    for (size_t at = statement.begin; at < statement.end; ++at) {
      if (code_[at] == "(" || code_[at] == "[")
        at = code_.closing(at, statement.end);
      else if (code_[at] == "=" && at > statement.begin)
        return at;
    }
    return 0;
  }

  bool names_shared(Span span) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (shared_.count(code_[at]) > 0) return true;
    }
    return false;
  }

  // `*&tsl_var_x()`, without an index behind.
  static bool whole_variable(const std::string& lvalue) { return lvalue.ends_with("()"); }

  // The last statement before `end` that declares `name`, if that is a copy of `lvalue`; else `end`.
  size_t copy_of(const std::string& lvalue, std::string_view name, size_t end) const {
    for (size_t i = end; i-- > 0;) {
      const size_t equals = assignment_in(statements_[i]);
      if (equals == 0 || code_[equals - 1] != name || equals - 1 == statements_[i].begin) continue;
      return code_.text_without_spaces({equals + 1, statements_[i].end - 1}) == lvalue ? i : end;
    }
    return end;
  }

  bool uses(Span span, std::string_view name) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] == name && !code_.is_member(at)) return true;
    }
    return false;
  }

  void repair(size_t copy, size_t last, std::string_view name) {
    for (size_t i = copy + 1; i < last; ++i) {
      const bool is_part = code_[statements_[i].begin] == name || code_[statements_[i].begin + 1] == name;
      if (assignment_in(statements_[i]) == 0 || !is_part) refuse(statements_[last]);
    }
    for (size_t i = last + 1; i < statements_.size(); ++i) {
      if (uses(statements_[i], name)) refuse(statements_[last]);
    }
    const size_t equals = assignment_in(statements_[copy]);
    code_.replace({statements_[copy].begin, equals}, c10::str("auto& ", name, " "));
    code_.replace(statements_[last], ";");
  }

  [[noreturn]] void refuse(Span statement) const {
    throw RefusedText{
        c10::str("Slang's derivative of ", users_name(function_.name),
                 " writes a group-shared array as a whole, over what other threads have written; store to it in a "
                 "function of its own that is not [Differentiable] (near ",
                 code_.said_place(statement.begin), ")")};
  }

  EmittedCode& code_;
  const EmittedFunction& function_;
  const std::set<std::string_view>& shared_;
  std::vector<Span> statements_;
};

}  // namespace

void store_to_shared_in_place(EmittedCode& code) {
  const std::set<std::string_view> shared = shared_aggregates(code);
  if (shared.empty()) return;
  for (const EmittedFunction& function : code.functions()) {
    if (function.name.starts_with("s_")) Repair(code, function, shared).run();
  }
}

}  // namespace torch_slang
