#include "compiler/emit/added_gradients.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>

#include "common/identifiers.h"
#include "compiler/ctext/lvalues.h"
#include "compiler/emit/copies_of_sums.h"
#include "compiler/emit/gradient_flow.h"
#include "compiler/text/refused_text.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

struct ByText {
  bool operator()(const std::vector<Step>& a, const std::vector<Step>& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](const Step& x, const Step& y) { return x.text < y.text; });
  }
};
using Parts = std::set<std::vector<Step>, ByText>;

// The assignments to parts of a variable since it was zero, or since its value was unknown.
struct Collected {
  bool from_zero = false;
  bool written = false;    // the whole has been assigned something other than zero, or has been handed on
  bool unset = false;      // nothing has been assigned yet
  bool gradients = false;  // among the assigned values
  Parts parts;

  bool meets(const std::vector<Step>& part) const {
    return std::any_of(parts.begin(), parts.end(), [&](const auto& other) { return may_overlap(part, other); });
  }
  bool operator==(const Collected& other) const {
    const auto same = [](const auto& a, const auto& b) { return !ByText()(a, b) && !ByText()(b, a); };
    return from_zero == other.from_zero && written == other.written && unset == other.unset &&
           gradients == other.gradients &&
           std::equal(parts.begin(), parts.end(), other.parts.begin(), other.parts.end(), same);
  }
};

// Facts about variables before a statement.
struct Known {
  std::map<std::string, Collected> variables;
  CopiesOfSums copies;

  void join(const Known& other) {
    for (auto& [name, one] : variables) one.from_zero = one.from_zero && other.variables.count(name) > 0;
    for (const auto& [name, its] : other.variables) {
      Collected& one = variables[name];
      one.from_zero = one.from_zero && its.from_zero;
      one.gradients = one.gradients || its.gradients;
      one.written = one.written || its.written;
      one.unset = one.unset || its.unset;
      one.parts.insert(its.parts.begin(), its.parts.end());
    }
    copies.join(other.copies);
  }
  bool operator==(const Known& other) const { return variables == other.variables && copies == other.copies; }
};

class Adder : FlowWalk<Known> {
 public:
  Adder(EmittedCode& code, const EmittedFunction& function)
      : FlowWalk(code), code_(code), function_(function), flow_(code, function) {}

  // Whether any assignment has become an addition.
  bool run() {
    for_each_simple(function_.body, [&](const EmittedStatement& statement) {
      if (!code_[statement.span.begin].starts_with(kBackward)) return;
      for (std::string& name : code_.handed_on(statement.span)) sums_.emplace(std::move(name), sums_.size());
    });
    follow(function_.body, {});
    return added_;
  }

 private:
  void simple(const EmittedStatement& statement, Known& known) override {
    const auto found = code_.assignment(statement);
    const SumSet sums = sums_in(found ? found->value : statement.span, known.copies);
    follow_sums(statement, found, sums, known.copies);
    if (!found || found->kind == Assignment::Kind::Other) return forget(statement.span, known);
    const bool zero = is_zero(found->value, known);
    forget(found->value, known);
    if (found->kind == Assignment::Kind::Part) return part(statement, *found, zero, known);
    const std::string& variable = found->left.variable;
    if (found->kind == Assignment::Kind::Whole && !zero) whole(statement, *found, sums, known.variables[variable]);
    Collected& now = begin_anew(variable, known);
    now.from_zero = zero;
    now.unset = found->value.size() == 0;
    now.written = !zero && !now.unset;
  }

  // What sums hold may go into other variables, through calls too, before it comes back.
  void follow_sums(const EmittedStatement& statement, const Assignment* found, const SumSet& sums,
                   CopiesOfSums& copies) const {
    const bool stays = found && found->kind == Assignment::Kind::Part;
    for (const std::string& target : code_.handed_on(statement.span)) copies.put(sums, target, stays);
    if (found) copies.put(sums, found->left.variable, stays);
  }

  // The sums that the text names, and those of which it names a copy.
  SumSet sums_in(Span span, const CopiesOfSums& copies) const {
    SumSet found;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (!code_.is_name(at)) continue;
      const std::string name(code_[at]);
      if (const auto sum = sums_.find(name); sum != sums_.end()) found.add(sum->second);
      found.add(copies.in(name));
    }
    return found;
  }

  // Note [first gradients]
  void whole(const EmittedStatement& statement, const Assignment& assigned, const SumSet& sums,
             const Collected& before) {
    const auto sum = sums_.find(assigned.left.variable);
    if (sum == sums_.end() || !flow_.reaches(statement) || !before.written || sums.has(sum->second)) return;
    if (before.unset) refuse();
    add(statement, assigned);
  }

  void part(const EmittedStatement& statement, const Assignment& assigned, bool zero, Known& known) {
    const std::vector<Step>& steps = assigned.left.steps;
    Collected& before = known.variables[assigned.left.variable];
    if (zero && !before.from_zero) return;  // clears an element
    const bool of_gradients = before.gradients || flow_.reaches(statement);
    if (of_gradients && before.meets(steps) && !reads_itself(statement, assigned)) {
      if (before.from_zero)
        add(statement, assigned);
      else if (!is_fixed(steps))
        refuse();
    }
    before.gradients = of_gradients;
    before.parts.insert(steps);
    before.written = true;
  }

  // `x = x + value;` is a sum already, of a user's backward that another file has inlined.
  bool reads_itself(const EmittedStatement& statement, const Assignment& assigned) const {
    const Span lvalue{statement.span.begin, assigned.value.begin - 1};
    for (size_t at = assigned.value.begin; at + lvalue.size() <= assigned.value.end; ++at) {
      size_t same = 0;
      while (same < lvalue.size() && code_[at + same] == code_[lvalue.begin + same]) ++same;
      if (same == lvalue.size()) return true;
    }
    return false;
  }

  static bool is_fixed(const std::vector<Step>& steps) {
    return std::all_of(steps.begin(), steps.end(), [](const Step& step) { return step.literal; });
  }

  // `x = value;` becomes `tsl::add_to(x, value);`
  void add(const EmittedStatement& statement, const Assignment& assigned) {
    if (!is_final()) return;
    code_.insert(statement.span.begin, "tsl::add_to(");
    code_.replace({assigned.value.begin - 1, assigned.value.begin}, ",");
    code_.replace({statement.span.end - 1, statement.span.end}, ");");
    added_ = true;
  }

  [[noreturn]] void refuse() const {
    throw RefusedText{
        c10::str("the gradient of ", users_name(function_.name),
                 " would lose terms that two of its elements share: it reads an array, vector or matrix by "
                 "several indices, and Slang assigns their gradients where it should add them, in a form "
                 "that torch_slang does not recognise; copy the value read by the first index to a variable")};
  }

  // Nothing is known any more of variables whose address is handed on.
  void forget(Span span, Known& known) {
    const bool zeroes = gives_zero(span.begin);
    for (const std::string& name : code_.handed_on(span)) {
      Collected& one = begin_anew(name, known);
      one.from_zero = zeroes;
      one.written = !zeroes;
    }
  }

  Collected& begin_anew(const std::string& variable, Known& known) const {
    if (const auto sum = sums_.find(variable); sum != sums_.end()) known.copies.forget(sum->second);
    return known.variables[variable] = Collected();
  }

  // Zero, all of it.
  bool is_zero(Span span, const Known& known) const {
    if (span.size() == 0) return false;
    if (const auto lvalue = lvalue_of(code_, span)) {
      const auto found = known.variables.find(lvalue->variable);
      return found != known.variables.end() && found->second.from_zero && !found->second.meets(lvalue->steps);
    }
    bool any = false;
    for (size_t at = span.begin; at < span.end; ++at) {
      const std::string_view text = code_[at];
      if (code_.is_number(at)) {
        if (!is_zero_number(text)) return false;
        any = true;
      } else if (code_.is_name(at)) {
        if (gives_zero(at) || is_zero({at, at + 1}, known)) {
          any = true;
        } else if (!makes_value(text) && !is_component(at)) {
          return false;
        }
        if (code_[at + 1] == "<") at = code_.closing_angle(at + 1, span.end);
      } else if (text.find_first_of("(){},.") == std::string_view::npos) {
        return false;
      }
    }
    return any;
  }

  // A call of a type's dzero: `dzero_0()`, `S_x24_syn_dzero_0()`. A variable may have the name too.
  bool gives_zero(size_t at) const {
    if (!code_.is_name(at) || code_[at + 1] != "(" || !is_numbered(code_[at])) return false;
    const std::string_view name = code_[at].substr(0, code_[at].rfind('_'));
    return name == "dzero" || name.ends_with("_dzero");
  }

  bool is_component(size_t at) const { return code_[at - 1] == "." && code_[at].size() == 1; }

  static bool makes_value(std::string_view name) {
    static const std::set<std::string_view> kTypes = {"float", "double", "__half", "__nv_bfloat16", "int", "uint"};
    return name.starts_with("make") || kTypes.count(name) > 0;
  }

  static bool is_zero_number(std::string_view number) {
    const std::string_view digits = number.substr(0, number.find_first_not_of("0123456789."));
    return digits.find_first_of("123456789") == std::string_view::npos;
  }

  EmittedCode& code_;
  const EmittedFunction& function_;
  const GradientFlow flow_;
  std::map<std::string, size_t> sums_;  // variables that other backwards are given to add to, with their numbers
  bool added_ = false;
};

// Structs say how they are added, by their fields; but contexts are no gradients.
void add_members(EmittedCode& code) {
  for (const EmittedStruct& one : code.structs()) {
    if (has_part(one.name, {"Ctx_s_bwdCallableCtx_"})) continue;
    std::string text = " template <class Other> TSL_INLINE void tsl_add(const Other& other) {";
    for (const EmittedField& field : one.fields)
      text += c10::str(" tsl::add_to(", field.name, ", other.", field.name, ");");
    code.insert(one.end, text + " } ");
  }
}

}  // namespace

void add_met_gradients(EmittedCode& code) {
  bool added = false;
  for (const EmittedFunction& function : code.functions()) {
    if (function.name.starts_with(kBackward)) added = Adder(code, function).run() || added;
  }
  if (added) add_members(code);
}

}  // namespace torch_slang
