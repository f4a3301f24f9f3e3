#include "compiler/emit/contexts.h"

#include <map>
#include <set>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/gradient_flow.h"

namespace torch_slang {
namespace {

class Reader {
 public:
  Reader(EmittedCode& code, const EmittedFunction& function) : code_(code), function_(function) {}

  void run() {
    for (const EmittedParameter& parameter : function_.parameters) {
      if (parameter.type.starts_with(kContext)) context_ = parameter.name;
    }
    if (context_.empty()) return;
    std::map<std::string, int> changes;
    for_each_simple(function_.body, [&](const EmittedStatement& statement) {
      if (const auto found = code_.assignment(statement)) ++changes[found->left.variable];
      for (const std::string& name : code_.handed_on(statement.span)) ++changes[name];
    });
    for_each_simple(function_.body, [&](const EmittedStatement& statement) {
      const auto found = code_.assignment(statement);
      if (!found || found->kind != Assignment::Kind::Declare || changes[found->left.variable] != 1) return;
      if (code_[statement.span.begin] != "FixedArray") return;
      const auto lvalue = lvalue_of(code_, found->value);
      if (!lvalue) return;
      const auto copy = copies_.find(lvalue->variable);  // the copy that this is a copy of
      if (copy != copies_.end() && found->value.size() == 1)
        copies_[found->left.variable] = copy->second;
      else if (lvalue->variable == context_ && !lvalue->steps.empty())
        copies_[found->left.variable] = code_.text_without_spaces(found->value);
      else
        return;
      code_.replace(statement.span, "");
      erased_.insert(found->value.begin);
    });
    if (!copies_.empty()) replace_reads();
  }

 private:
  void replace_reads() {
    const Span body = function_.body.span;
    for (size_t at = body.begin; at < body.end; ++at) {
      const bool is_declaration = code_[at + 1] == "=";
      if (!code_.is_name(at) || code_.is_member(at) || is_declaration || erased_.count(at) > 0) continue;
      const auto copy = copies_.find(std::string(code_[at]));
      if (copy != copies_.end()) code_.replace({at, at + 1}, copy->second);
    }
  }

  EmittedCode& code_;
  const EmittedFunction& function_;
  std::string_view context_;
  std::map<std::string, std::string> copies_;
  std::set<size_t> erased_;  // where the values begin that the copies were declared with
};

}  // namespace

void read_contexts_in_place(EmittedCode& code) {
  for (const EmittedFunction& function : code.functions()) Reader(code, function).run();
}

void store_values_in_contexts(EmittedCode& code) {
  std::set<std::string_view> values;
  for (const EmittedStruct& one : code.structs()) {
    if (!one.name.starts_with(kContext)) continue;
    for (const EmittedField& field : one.fields) {
      if (!field.is_pointer) values.insert(field.name);
    }
  }
  if (values.empty()) return;
  for (const EmittedFunction& function : code.functions()) {
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      const auto found = code.assignment(statement);
      if (!found || found->kind != Assignment::Kind::Part || values.count(found->left.steps.back().text) == 0) return;
      const size_t begin = found->value.begin;
      if (code[begin] == "&" && code.is_name(begin + 1) && found->value.size() == 2)
        code.replace({begin, begin + 1}, "");
    });
  }
}

}  // namespace torch_slang
