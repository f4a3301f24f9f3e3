#include "compiler/emit/refused_lost_parts.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <map>

#include "compiler/ctext/lvalues.h"
#include "compiler/emit/gradient_flow.h"
#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

constexpr std::string_view kArray = "FixedArray<";
constexpr std::array<std::string_view, 14> kScalars = {"bool",      "int",     "uint",    "short",    "ushort",
                                                       "int8_t",    "uint8_t", "int16_t", "uint16_t", "longlong",
                                                       "ulonglong", "__half",  "float",   "double"};

bool is_scalar(std::string_view type) { return std::find(kScalars.begin(), kScalars.end(), type) != kScalars.end(); }

// `double3`
bool is_vector(std::string_view type) {
  return !type.empty() && type.back() >= '1' && type.back() <= '4' && is_scalar(type.substr(0, type.size() - 1));
}

// The types of a text's variables and of their parts, as they are written, without addresses; empty where that is not known.
class EmittedTypes {
 public:
  explicit EmittedTypes(const EmittedCode& code) : code_(code) {
    for (const EmittedStruct& one : code.structs()) {
      for (const EmittedField& field : one.fields) fields_[one.name][field.name] = named(field.type);
    }
  }

  void enter(const EmittedFunction& function) {
    variables_.clear();
    for (const EmittedParameter& parameter : function.parameters) declare(parameter.name, parameter.whole_type);
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      const auto found = code_.assignment(statement);
      if (!found || found->kind != Assignment::Kind::Declare) return;
      size_t name = statement.span.begin;
      while (name + 1 < statement.span.end && code_[name + 1] != "=" && code_[name + 1] != ";") ++name;
      declare(found->left.variable, {statement.span.begin, name});
    });
  }

  std::string of(const LValue& lvalue) const {
    const auto variable = variables_.find(lvalue.variable);
    std::string type = variable == variables_.end() ? "" : variable->second;
    for (const Step& step : lvalue.steps) type = part(type, step);
    return type;
  }

  bool is_aggregate(std::string_view type) const {
    return type.starts_with(kArray) || is_vector(type) || fields_.count(type) > 0;
  }

 private:
  std::string named(Span type) const {
    while (type.size() > 0 && (code_[type.end - 1] == "*" || code_[type.end - 1] == "&")) --type.end;
    return code_.text_without_spaces(type);
  }

  void declare(std::string_view name, Span type) {
    const auto [at, is_new] = variables_.emplace(name, named(type));
    if (!is_new && at->second != named(type)) at->second.clear();
  }

  std::string part(const std::string& type, const Step& step) const {
    if (type.starts_with(kArray)) return type.substr(kArray.size(), type.rfind(',') - kArray.size());
    if (is_vector(type)) return type.substr(0, type.size() - 1);
    const auto one = fields_.find(type);
    if (one == fields_.end()) return {};
    const auto field = one->second.find(step.text);
    return field == one->second.end() ? std::string() : field->second;
  }

  const EmittedCode& code_;
  std::map<std::string_view, std::map<std::string_view, std::string, std::less<>>, std::less<>> fields_;
  std::map<std::string, std::string, std::less<>> variables_;
};

// `0.5`, `- 0.5`
bool is_number(const EmittedCode& code, Span value) {
  if (value.size() == 2 && code[value.begin] == "-") ++value.begin;
  return value.size() == 1 && code.is_number(value.begin);
}

}  // namespace

void refuse_lost_parts(const EmittedCode& code) {
  EmittedTypes types(code);
  for (const EmittedFunction& function : code.functions()) {
    if (!function.name.starts_with("s_")) continue;  // Slang's own functions alone
    types.enter(function);
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      const auto found = code.assignment(statement);
      if (!found) return;
      const auto value = lvalue_of(code, found->value);
      const std::string to = types.of(found->left);
      const std::string from = value ? types.of(*value) : is_number(code, found->value) ? "double" : "";
      if (to.empty() || from.empty() || to == from || (!types.is_aggregate(to) && !types.is_aggregate(from))) return;
      throw RefusedText{c10::str("Slang's derivative of ", users_name(function.name),
                                 " lacks which part of an element is assigned (`b[i].x = v`); copy the element to a "
                                 "variable, assign to that one's part, and copy it back (near ",
                                 code.said_place(statement.span.begin), ")")};
    });
  }
}

}  // namespace torch_slang
