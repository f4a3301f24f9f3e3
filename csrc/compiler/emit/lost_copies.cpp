#include "compiler/emit/lost_copies.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/gradient_flow.h"
#include "compiler/emit/statement_lines.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

using Kind = EmittedStatement::Kind;
using Definitions = std::set<size_t>;  // where a variable was assigned, by the statement's first token

// What each variable may hold, of those whose parts are assigned somewhere.
struct Reaching : std::map<std::string, Definitions, std::less<>> {
  void join(const Reaching& other) {
    for (const auto& [name, definitions] : other) (*this)[name].insert(definitions.begin(), definitions.end());
  }
};

// Wholes that are made of their parts, which Slang writes part by part, in the parts' order (slang-ir-simplify-for-emit.cpp).
class PartByPart {
 public:
  struct Found {
    size_t statements = 0;  // as many assign all parts of one variable; 0: they do not
    bool nested = false;  // parts of parts are among them
  };

  PartByPart(const EmittedCode& code, const EmittedStatement& body) : code_(code) {
    for (const EmittedStruct& one : code.structs()) structs_[one.name] = &one;
    for_each_simple(body, [&](const EmittedStatement& statement) {
      const auto found = code_.assignment(statement);
      if (!found || found->kind != Assignment::Kind::Declare) return;
      const Span type = {statement.span.begin, statement.assigned->left.end - 1};
      if (code_[type.begin] == kArray || structs_.count(code_[type.begin]) > 0) types_[found->left.variable] = type;
    });
  }

  // From statement i of the block on.
  Found find(const EmittedStatement& block, size_t i) const {
    const auto first = code_.assignment(block.parts[i]);
    if (!first || first->kind != Assignment::Kind::Part) return {};
    const auto type = types_.find(first->left.variable);
    if (type == types_.end()) return {};
    Found found;
    LValue whole = {first->left.variable, {}};
    return follow(block, i, type->second, whole, found) ? found : Found();
  }

 private:
  static constexpr std::string_view kArray = "FixedArray";

  // Whether the statements behind those that were found assign `part`, or all of its parts.
  bool follow(const EmittedStatement& block, size_t begin, Span type, LValue& part, Found& found) const {
    if (begin + found.statements < block.parts.size() && !part.steps.empty()) {
      const auto next = code_.assignment(block.parts[begin + found.statements]);
      if (!next || next->kind != Assignment::Kind::Part || next->left.variable != part.variable) return false;
      if (is_same(next->left.steps, part.steps)) {
        ++found.statements;
        found.nested = found.nested || part.steps.size() > 1;
        return true;
      }
    }
    const auto follow_part = [&](const std::string& name, Span type_of_part) {
      part.steps.push_back({name, true});
      const bool follows = follow(block, begin, type_of_part, part, found);
      part.steps.pop_back();
      return follows;
    };
    if (code_[type.begin] == kArray) {
      const size_t last = code_.closing_angle(type.begin + 1, code_.size()) - 1;  // `<T, 3>`
      const size_t size = code_.is_number(last) ? std::stoul(std::string(code_[last])) : 0;
      for (size_t k = 0; k < size; ++k) {
        if (!follow_part(std::to_string(k), {type.begin + 2, last - 1})) return false;
      }
      return size > 0;
    }
    const auto structure = structs_.find(code_[type.begin]);
    if (structure == structs_.end()) return false;
    const auto& fields = structure->second->fields;
    return !fields.empty() && std::all_of(fields.begin(), fields.end(), [&](const EmittedField& field) {
      return follow_part(std::string(field.name), field.type);
    });
  }

  static bool is_same(const std::vector<Step>& a, const std::vector<Step>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Step& one, const Step& other) {
      return one.literal && other.literal && one.text == other.text;
    });
  }

  const EmittedCode& code_;
  std::map<std::string_view, const EmittedStruct*> structs_;
  std::map<std::string, Span> types_;
};

// Which assignments' values are read, and which are overwritten where.
class Flow : FlowWalk<Reaching> {
 public:
  Flow(const EmittedCode& code, const EmittedStatement& body) : FlowWalk(code) {
    for_each_simple(body, [&](const EmittedStatement& statement) {
      const auto found = code_.assignment(statement);
      if (!found || found->left.variable.empty()) return;
      // A declaration without a value counts: so Slang declares a variable that only one of two branches assigns.
      ++values_[found->left.variable];
      if (found->kind != Assignment::Kind::Part) return;
      parts_.insert(statement.span.begin);
      changed_in_place_.insert(found->left.variable);
    });
    if (parts_.empty()) return;
    for_each_simple(body, [&](const EmittedStatement& statement) {
      for (const std::string& name : code_.handed_on(statement.span)) memory_.insert(name);
    });
    follow(body, {});
  }

  // Slang's variable for several values: neither a name for one, nor memory that calls are given.
  bool holds_several_values(const std::string& variable) const {
    const auto found = values_.find(variable);
    return found != values_.end() && found->second > 1 && memory_.count(variable) == 0;
  }

  // One of the assignments at the end of a branch: they may declare their targets.
  const Assignment* copy(const EmittedStatement& statement) const {
    const auto found = code_.assignment(statement);
    const bool declares = found && found->kind == Assignment::Kind::Declare;
    if (!declares) return found && found->kind == Assignment::Kind::Whole ? found : nullptr;
    const bool of_variable = found->value.size() == 1 && code_.is_name(found->value.begin);
    return of_variable || holds_several_values(found->left.variable) ? found : nullptr;
  }

  // Whether the function overwrites any variable that it changed in place.
  bool overwrites_changes() const { return !overwritten_.empty(); }
  // In place changes that the variable may hold before the assignment at `at`.
  Definitions overwritten(size_t at) const {
    const auto found = overwritten_.find(at);
    return found == overwritten_.end() ? Definitions() : found->second;
  }
  bool is_read(size_t definition) const { return read_.count(definition) > 0; }

 private:
  void simple(const EmittedStatement& statement, Reaching& reaching) override {
    const auto found = code_.assignment(statement);
    const size_t at = statement.span.begin;
    if (!found || found->kind == Assignment::Kind::Other) return read(statement.span, reaching);
    read(found->value, reaching);
    if (found->kind == Assignment::Kind::Part) {
      read_indices({at, found->value.begin - 1}, found->left.variable, reaching);
    }
    if (changed_in_place_.count(found->left.variable) == 0) return;
    Definitions& before = reaching[found->left.variable];
    for (const size_t definition : before) {
      if (parts_.count(definition) > 0) overwritten_[at].insert(definition);
    }
    before = {at};
  }

  void head(Span span, const Reaching& reaching) override { read(span, reaching); }

  void read(Span span, const Reaching& reaching) {
    for (size_t at = span.begin; at < span.end; ++at) read_at(at, reaching);
  }

  // On the left side of `=`: all names but the variable itself, which comes first.
  void read_indices(Span left, const std::string& variable, const Reaching& reaching) {
    bool own = true;
    for (size_t at = left.begin; at < left.end; ++at) {
      if (own && code_[at] == variable)
        own = false;
      else
        read_at(at, reaching);
    }
  }

  void read_at(size_t at, const Reaching& reaching) {
    if (!code_.is_name(at) || code_.is_member(at)) return;
    const auto found = reaching.find(code_[at]);
    if (found != reaching.end()) read_.insert(found->second.begin(), found->second.end());
  }

  std::map<std::string, int> values_;
  std::set<std::string> memory_, changed_in_place_;
  std::set<size_t> parts_, read_;
  std::map<size_t, Definitions> overwritten_;
};

// Whether as many statements of the block from i on and from k on assign the same values.
bool have_same_values(const EmittedCode& code, const EmittedStatement& block, size_t i, size_t k, size_t count) {
  const auto value = [&](size_t at) { return code.text_without_spaces(block.parts[at].assigned->value); };
  for (size_t n = 0; n < count; ++n) {
    if (value(i + n) != value(k + n)) return false;
  }
  return true;
}

// Whether a value that was made in place may be overwritten, but for the next change in place.
bool overwrites(const EmittedCode& code, const EmittedStatement& statement, const Flow& flow,
                const PartByPart& part_by_part) {
  for (size_t i = 0; i < statement.parts.size(); ++i) {
    const EmittedStatement& part = statement.parts[i];
    if (overwrites(code, part, flow, part_by_part)) return true;
    const auto found = code.assignment(part);
    if (statement.kind != Kind::Block || !found || flow.overwritten(part.span.begin).empty()) continue;
    const size_t parts = part_by_part.find(statement, i).statements;
    if (parts == 0 && found->kind != Assignment::Kind::Whole) continue;
    // Of `Y = X; X = Y;`, which should exchange the two, the optimiser leaves the first.
    if (parts == 0 && code.is_name(found->value.begin) && found->value.size() == 1) return true;
    for (size_t k = i + std::max<size_t>(parts, 1); k < statement.parts.size(); ++k) {
      const size_t others = part_by_part.find(statement, k).statements;
      const auto next = flow.copy(statement.parts[k]);
      if (others == 0 && !next) break;
      if (others > 0 && others == parts && have_same_values(code, statement, i, k, parts)) return true;
      if (others > 0)
        k += others - 1;
      else if (code.text_without_spaces(next->value) == found->left.variable)
        return true;
      else if (parts == 0 && code.text_without_spaces(next->value) == code.text_without_spaces(found->value))
        return true;
    }
  }
  return false;
}

class Repair {
 public:
  Repair(EmittedCode& code, const EmittedFunction& function, const Flow& flow)
      : code_(code), function_(function), flow_(flow), gradients_(code, function), part_by_part_(code, function.body) {}

  void run() { walk(function_.body); }

 private:
  void walk(const EmittedStatement& statement) {
    for (const EmittedStatement& part : statement.parts) walk(part);
    if (statement.kind != Kind::Block) return;
    for (size_t i = 0; i < statement.parts.size(); ++i) {
      const auto parts = part_by_part_.find(statement, i);
      const auto found = code_.assignment(statement.parts[i]);
      if (parts.statements == 0 && (!found || found->kind != Assignment::Kind::Whole)) continue;
      if (parts.statements == 0 && code_.text_without_spaces(found->value) == found->left.variable) continue;
      const Definitions overwritten = flow_.overwritten(statement.parts[i].span.begin);
      if (!overwritten.empty()) overwrite(statement, i, parts, found->left.variable, overwritten);
    }
  }

  // Statement i of the block, or as many from there on as there are parts, overwrites a variable that was changed in place.
  void overwrite(const EmittedStatement& block, size_t i, PartByPart::Found parts, const std::string& variable,
                 const Definitions& overwritten) {
    std::vector<Span> wanting;
    for (size_t k = i + std::max<size_t>(parts.statements, 1); k < block.parts.size(); ++k) {
      if (const size_t others = part_by_part_.find(block, k).statements) {
        k += others - 1;
        continue;
      }
      const auto next = flow_.copy(block.parts[k]);
      if (!next) break;
      if (code_.text_without_spaces(next->value) == variable && is_left_behind(block, k, next->left.variable, variable))
        wanting.push_back(next->value);
    }
    if (wanting.empty()) return;
    const bool gradient = gradients_.reaches(block.parts[i]);
    bool alike = false, unread = false;
    for (const size_t definition : overwritten) {
      if (gradients_.reaches_at(definition) != gradient) continue;
      alike = true;
      unread = unread || !flow_.is_read(definition);
    }
    if (!alike) return;
    if (parts.nested) refuse(block.parts[i]);  // may be the change in place itself, whose value is meant
    if (gradient && begins_with_assignments(block, i) && (!unread || wanting.size() > 1)) refuse(block.parts[i]);
    repair(block.parts[i], variable, wanting);
  }

  // Statement k assigns what the branches leave behind, and does not begin a change in place.
  bool is_left_behind(const EmittedStatement& block, size_t k, const std::string& target,
                      const std::string& source) const {
    if (target == source || !flow_.holds_several_values(target)) return false;
    const auto next = k + 1 < block.parts.size() ? code_.assignment(block.parts[k + 1]) : nullptr;
    return !next || next->kind != Assignment::Kind::Part || next->left.variable != target;
  }

  [[noreturn]] void refuse(const EmittedStatement& at) const {
    const std::string place = code_.said_place(at.span.begin);  // inlined code may have a line of the wrapper
    const bool is_users = is_users_file(place.substr(0, place.rfind(':')));
    throw RefusedText{
        c10::str("the gradient of ", users_name(function_.name),
                 " may take the value of one aggregate (array, vector, matrix or struct) for another's, where "
                 "its elements are changed in a branch or a loop and then the whole is copied; change the "
                 "elements in a function of their own, which returns the aggregate",
                 is_users ? " (near " + place + ")" : "")};
  }

  bool begins_with_assignments(const EmittedStatement& block, size_t i) const {
    for (size_t k = 0; k < i;) {
      const size_t parts = part_by_part_.find(block, k).statements;
      if (parts == 0 && !flow_.copy(block.parts[k])) return false;
      k += std::max<size_t>(parts, 1);
    }
    return true;
  }

  void repair(const EmittedStatement& before, const std::string& variable, const std::vector<Span>& wanting) {
    const std::string kept = c10::str("tsl_kept_", ++count_, "_", variable);
    code_.insert(before.span.begin, c10::str("const auto ", kept, " = ", variable, "; "));
    for (const Span value : wanting) code_.replace(value, kept);
  }

  EmittedCode& code_;
  const EmittedFunction& function_;
  const Flow& flow_;
  const GradientFlow gradients_;
  const PartByPart part_by_part_;
  int count_ = 0;
};

}  // namespace

bool may_lose_copies(const EmittedCode& code) {
  return std::any_of(code.functions().begin(), code.functions().end(), [&](const EmittedFunction& function) {
    const Flow flow(code, function.body);
    return flow.overwrites_changes() && overwrites(code, function.body, flow, PartByPart(code, function.body));
  });
}

void repair_lost_copies(EmittedCode& code) {
  for (const EmittedFunction& function : code.functions()) {
    const Flow flow(code, function.body);
    if (flow.overwrites_changes()) Repair(code, function, flow).run();
  }
}

}  // namespace torch_slang
