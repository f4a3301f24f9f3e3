#include "compiler/emit/unset_values.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/flow_walk.h"
#include "compiler/emit/gradient_flow.h"

namespace torch_slang {
namespace {

constexpr std::string_view kPair = "DiffPair_";

// Variables, and `variable.field` of pairs, that nothing may have been stored to.
struct Unset : std::set<std::string, std::less<>> {
  void join(const Unset& other) { insert(other.begin(), other.end()); }
};

class UnsetValues : FlowWalk<Unset> {
 public:
  UnsetValues(const EmittedCode& code, const EmittedFunction& function) : FlowWalk(code), function_(function) {
    for (const EmittedStruct& one : code.structs()) {
      if (!one.name.starts_with(kPair)) continue;
      for (const EmittedField& field : one.fields) fields_[one.name].push_back(field.name);
    }
    follow(function.body, {});
  }

  // The semicolons of the declarations.
  const std::set<size_t>& found() const { return found_; }

 private:
  void simple(const EmittedStatement& statement, Unset& unset) override {
    const bool may_declare = statement.assigned && statement.assigned->declares;
    if (unset.empty() && !may_declare) return;
    const auto assigned = code_.assignment(statement);
    const std::vector<std::string> passed = code_.handed_on(statement.span);
    using Kind = Assignment::Kind;
    const bool is_lvalue = assigned && assigned->kind != Kind::Other;
    bool is_target = is_lvalue;  // the first mention of the variable is where it is stored
    for (size_t at = statement.span.begin; at < statement.span.end; ++at) {
      if (!code_.is_name(at) || code_.is_member(at)) continue;
      if (is_target && code_[at] == assigned->left.variable) {
        is_target = false;
      } else if (code_[at - 1] == "&" && std::ranges::find(passed, code_[at]) != passed.end()) {
        pass(at, unset);
      } else {
        read(at, unset);
      }
    }
    if (!is_lvalue) return;
    const std::string& variable = assigned->left.variable;
    if (assigned->kind == Kind::Part) {
      unset.erase(variable);
      unset.erase(variable + "." + assigned->left.steps[0].text);
      return;
    }
    store(variable, unset);
    if (assigned->kind == Kind::Declare && assigned->value.size() == 0) declare(variable, statement, unset);
  }

  void head(Span span, const Unset& unset) override {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_.is_name(at) && !code_.is_member(at)) read(at, unset);
    }
  }

  void declare(const std::string& variable, const EmittedStatement& statement, Unset& unset) {
    const std::string_view type = code_[statement.span.begin];
    const bool is_slangs = function_.name.starts_with("s_") || is_temporary(variable);
    if (!is_slangs || type.starts_with(kContext)) return;
    declarations_[variable] = statement.span.end - 1;
    unset.insert(variable);
    for (const std::string_view field : fields_[type]) unset.insert(variable + "." + std::string(field));
  }

  static bool is_temporary(std::string_view name) {
    return name.size() > 2 && name.starts_with("_S") && name.find_first_not_of("0123456789", 2) == name.npos;
  }

  static bool has_unset_part(std::string_view variable, const Unset& unset) {
    const auto part = unset.lower_bound(std::string(variable) + ".");
    return part != unset.end() && part->starts_with(std::string(variable) + ".");
  }

  static void store(std::string_view variable, Unset& unset) {
    unset.erase(std::string(variable));
    while (has_unset_part(variable, unset)) unset.erase(unset.lower_bound(std::string(variable) + "."));
  }

  // To a call, which may store there: of a pair of which nothing is set nothing is read.
  void pass(size_t at, Unset& unset) {
    if (unset.count(code_[at]) == 0 && has_unset_part(code_[at], unset)) set(code_[at]);
    store(code_[at], unset);
  }

  void read(size_t at, const Unset& unset) {
    if (declarations_.count(code_[at]) == 0) return;
    const std::string name(code_[at]);
    const bool by_pointer = code_[at + 1] == ")" && code_[at + 2] == "-" && code_[at + 3] == ">";
    const size_t field = by_pointer ? at + 4 : code_[at + 1] == "." ? at + 2 : 0;
    const bool part =
        field == 0 ? has_unset_part(name, unset) : unset.count(name + "." + std::string(code_[field])) > 0;
    if (part || unset.count(name) > 0) set(name);
  }

  void set(std::string_view variable) { found_.insert(declarations_.find(variable)->second); }

  const EmittedFunction& function_;
  std::map<std::string_view, std::vector<std::string_view>> fields_;  // of pairs
  std::map<std::string, size_t, std::less<>> declarations_;  // the semicolons of those seen so far
  std::set<size_t> found_;
};

}  // namespace

void set_unset_values(EmittedCode& code) {
  std::set<size_t> found;
  for (const EmittedFunction& function : code.functions()) found.merge(std::set(UnsetValues(code, function).found()));
  for (const size_t semicolon : found) code.insert(semicolon, " = {}");
}

}  // namespace torch_slang
