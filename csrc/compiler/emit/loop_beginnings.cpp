#include "compiler/emit/loop_beginnings.h"

#include <c10/util/StringUtil.h>

#include <optional>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/flow_walk.h"

namespace torch_slang {
namespace {

constexpr const char* kUnknown = "?";
constexpr std::string_view kIterations = "_pc_";   // in the forward part, from 0
constexpr std::string_view kBackwards = "_dc_";  // in the backward, down to 0

// `int(2)`, `int(-2)` and `2U` as a number; empty for anything else.
std::string number_of(const EmittedCode& code, Span span) {
  if (span.size() >= 4 && (code[span.begin] == "int" || code[span.begin] == "uint") && code[span.begin + 1] == "(")
    span = {span.begin + 2, span.end - 1};
  const bool negative = span.size() == 2 && code[span.begin] == "-";
  if (negative) ++span.begin;
  if (span.size() != 1 || !code.is_number(span.begin)) return {};
  const std::string_view digits = code[span.begin].substr(0, code[span.begin].find_first_not_of("0123456789"));
  return (negative ? "-" : "") + std::string(digits);
}

std::string negated(const std::string& number) { return number.starts_with("-") ? number.substr(1) : "-" + number; }

// A variable and the number that is added to it: `k + int(2)`, `k - int(2)`.
struct Counting {
  std::string variable, number;
};

std::optional<Counting> counting_of(const EmittedCode& code, Span value) {
  if (value.size() < 3 || !code.is_name(value.begin)) return std::nullopt;
  const std::string number = number_of(code, {value.begin + 2, value.end});
  const std::string_view sign = code[value.begin + 1];
  if (number.empty() || (sign != "+" && sign != "-")) return std::nullopt;
  return Counting{std::string(code[value.begin]), sign == "+" ? number : negated(number)};
}

// The counter of a backward's loop and the step, from `_dc_0 + MISSING`, `_dc_0 * int(2) + MISSING`, also in `uint( )`.
std::optional<Counting> counted(const EmittedCode& code, Span value, size_t missing) {
  if (code[value.begin] == "uint" && code[value.begin + 1] == "(") value = {value.begin + 2, value.end - 1};
  if (!code[value.begin].starts_with(kBackwards) || missing + 1 != value.end || code[missing - 1] != "+")
    return std::nullopt;
  const std::string counter(code[value.begin]);
  if (value.begin + 1 == missing - 1) return Counting{counter, "1"};
  const std::string number = number_of(code, {value.begin + 2, missing - 1});
  if (code[value.begin + 1] != "*" || number.empty()) return std::nullopt;
  return Counting{counter, number};
}

// Names that are certain to have been assigned in an iteration.
struct AssignedNames : std::set<std::string, std::less<>> {
  void join(const AssignedNames& other) {
    std::erase_if(*this, [&](const std::string& name) { return other.count(name) == 0; });
  }
};

// Variables that carry a value from one iteration to the next: they are read before they are assigned.
class CarriedNames : FlowWalk<AssignedNames> {
 public:
  CarriedNames(const EmittedCode& code, const EmittedStatement& loop) : FlowWalk(code) { follow(loop, {}); }

  bool include(const std::string& name) const { return names_.count(name) > 0; }

 private:
  void simple(const EmittedStatement& statement, AssignedNames& assigned) override {
    const auto found = code_.assignment(statement);
    const bool whole = found && (found->kind == Assignment::Kind::Whole || found->kind == Assignment::Kind::Declare);
    head(whole ? found->value : statement.span, assigned);
    if (whole && found->value.size() > 0) assigned.insert(found->left.variable);
  }

  void head(Span span, const AssignedNames& assigned) override {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_.is_name(at) && !code_.is_member(at) && assigned.count(code_[at]) == 0) names_.emplace(code_[at]);
    }
  }

  std::set<std::string> names_;
};

}  // namespace

LoopBeginnings::LoopBeginnings(EmittedCode& code) : code_(code) {
  for (const EmittedFunction& function : code.functions()) find_notes(function, function.body, nullptr);
}

void LoopBeginnings::find_notes(const EmittedFunction& function, const EmittedStatement& statement,
                                const EmittedStatement* loop) {
  for (const EmittedStatement& part : statement.parts) {
    find_notes(function, part, statement.is_loop() ? &statement : loop);
  }
  const auto found = code_.assignment(statement);
  if (loop == nullptr || !found || found->kind != Assignment::Kind::Part || !found->left.steps[0].literal) return;
  if (found->value.size() != 1 || !code_[found->value.begin].starts_with(kIterations)) return;
  forwards_[found->left.steps[0].text] = {&function, loop, {statement.span.begin, found->value.begin - 1}};
}

bool LoopBeginnings::restore(const EmittedFunction& function, const EmittedStatement& statement, size_t at) {
  const auto found = code_.assignment(statement);
  const auto counter_of_backward = found ? counted(code_, found->value, at) : std::nullopt;
  if (!counter_of_backward) return false;
  const Assignment* first = nullptr;  // `int _dc_0 = (&context->value1_2)->value1_0 - int(1);`
  for_each_simple(function.body, [&](const EmittedStatement& one) {
    const auto declared = code_.assignment(one);
    if (declared && declared->kind == Assignment::Kind::Declare &&
        declared->left.variable == counter_of_backward->variable)
      first = declared;
  });
  if (!first || first->value.size() < 6) return false;
  const Span kept{first->value.begin, first->value.end - 5};  // but for `- int(1)`
  const auto lvalue = lvalue_of(code_, kept);
  if (!lvalue) return false;
  for (const auto& step : lvalue->steps) {
    const auto forward = forwards_.find(step.text);
    if (!step.literal || forward == forwards_.end()) continue;
    auto& field = beginnings_[{step.text, counter_of_backward->number}];
    if (field.empty()) {
      const std::string counter_of_forward = counter(forward->second, counter_of_backward->number);
      field = c10::str("tsl_beginning_", beginnings_.size());
      if (counter_of_forward.empty() || !declare(step.text, field)) return false;
      code_.insert_behind(
          forward->second.loop->span.begin - 1,
          c10::str(" ", with_field(forward->second.lvalue, step.text, field), " = ", counter_of_forward, ";"));
    }
    code_.replace({at, at + 1}, with_field(kept, step.text, field));
    return true;
  }
  return false;
}

// The one whole number that goes through the loop and that nothing is known of but that it grows by the step.
std::string LoopBeginnings::counter(const Forward& forward, const std::string& step) const {
  Values values;
  std::set<std::string> candidates, kept;
  for_each_simple(forward.function->body, [&](const EmittedStatement& one) {
    const auto found = code_.assignment(one);
    const std::string_view type = code_[one.span.begin];
    const bool inside = one.span.begin >= forward.loop->span.begin && one.span.end <= forward.loop->span.end;
    if (!found) return;
    if (!inside) {
      if (found->kind == Assignment::Kind::Declare && (type == "int" || type == "uint"))
        candidates.insert(found->left.variable);
    } else if (found->kind == Assignment::Kind::Part) {
      // In an array of the context: the backward does not lack it.
      kept.insert(code_.text_without_spaces(found->value));
    } else if (found->value.size() > 0) {
      values.emplace(found->left.variable, found->value);
    }
  });
  const CarriedNames carried(code_, *forward.loop);
  std::set<std::string> found;
  for (const std::string& one : candidates) {
    if (values.count(one) == 0 || kept.count(one) > 0 || !carried.include(one)) continue;
    const std::string number = step_of(one, values);
    if (number != step && number != kUnknown) continue;
    if (number == kUnknown) return {};
    found.insert(one);
  }
  return found.size() == 1 ? *found.begin() : std::string();
}

// The number that an iteration adds to the variable, through other variables too.
std::string LoopBeginnings::step_of(const std::string& variable, const Values& values) const {
  std::string number;
  std::vector<std::string> names{variable};
  std::set<std::string> seen{variable};
  while (!names.empty()) {
    const auto [begin, end] = values.equal_range(names.back());
    names.pop_back();
    for (auto one = begin; one != end; ++one) {
      const Span value = one->second;
      const auto made = counting_of(code_, value);
      if (made && made->variable == variable && (number.empty() || number == made->number)) {
        number = made->number;
      } else if (value.size() == 1 && code_.is_name(value.begin)) {
        if (seen.emplace(code_[value.begin]).second) names.emplace_back(code_[value.begin]);
      } else {
        return kUnknown;
      }
    }
  }
  return number.empty() ? kUnknown : number;
}

// The text of an lvalue with another field.
std::string LoopBeginnings::with_field(Span lvalue, const std::string& field, const std::string& other) const {
  std::string text;
  for (size_t at = lvalue.begin; at < lvalue.end; ++at)
    text += code_[at] == field ? std::string_view(other) : code_[at];
  return text;
}

// A field of the same type beside the other.
bool LoopBeginnings::declare(const std::string& field, const std::string& other) {
  for (const EmittedStruct& one : code_.structs()) {
    for (size_t at = one.end; at-- > 0 && code_[at] != "struct";) {
      if (code_[at] != field || code_[at + 1] != ";") continue;
      size_t begin = at;
      while (code_[begin - 1] != ";" && code_[begin - 1] != "{") --begin;
      code_.insert(one.end, c10::str(code_.text_without_spaces({begin, at}), " ", other, "; "));
      return true;
    }
  }
  return false;
}

}  // namespace torch_slang
