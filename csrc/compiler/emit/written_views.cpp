#include "compiler/emit/written_views.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "compiler/ctext/lvalues.h"
#include "compiler/reflect/elementwise_function.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::string_view kView = "TensorView";
// Types of numbers, whose names are conversions too.
constexpr std::array<std::string_view, 9> kNumbers = {"int",     "uint",     "float",  "double",       "bool",
                                                      "int64_t", "uint64_t", "__half", "__nv_bfloat16"};

bool may_be_written(const Leaf& leaf) {
  return leaf.is_whole() && !leaf.view().is_in && !leaf.is_written() && !leaf.diff_view();
}

// An access to an element of a view, `view.load<float>(i)`, by what its name begins with.
struct Access {
  bool loads = false, stores = false;
  explicit Access(std::string_view name) {
    const bool is_address = name.starts_with("data_ptr");
    loads = is_address || name.starts_with("load");
    stores = is_address || name.starts_with("store");
  }
};

class ViewFlow {
 public:
  explicit ViewFlow(const EmittedCode& code) : code_(code) {
    find_types();
    for (const EmittedFunction& function : code.functions()) find_variables(function);
    for (const EmittedFunction& function : code.functions()) read_statements(function);
    for (const EmittedFunction& function : code.functions()) read_calls(function.body.span);
  }

  AccessedViews accessed() { return {views_of(loaded_), views_of(stored_)}; }

 private:
  // Variables, and views that are named where they are used.
  struct Found {
    std::set<std::string_view> variables;
    std::set<int> views;
  };

  std::set<int> views_of(Found found) {
    std::vector<std::string_view> open(found.variables.begin(), found.variables.end());
    while (!open.empty()) {
      const std::string_view variable = open.back();
      open.pop_back();
      if (const auto own = views_.find(variable); own != views_.end())
        found.views.insert(own->second.begin(), own->second.end());
      for (const std::string_view source : sources_[variable]) {
        if (found.variables.insert(source).second) open.push_back(source);
      }
    }
    return found.views;
  }

  // Structs that a view is in.
  void find_types() {
    types_.insert(kView);
    for (bool more = true; more;) {
      more = false;
      for (const EmittedStruct& one : code_.structs()) {
        const bool holds = std::any_of(one.fields.begin(), one.fields.end(),
                                       [&](const EmittedField& field) { return names_a_view(field.type); });
        more |= holds && types_.insert(one.name).second;
      }
    }
    for (const EmittedStruct& one : code_.structs()) {
      if (!is_context(one.name)) continue;
      for (const EmittedField& field : one.fields) context_fields_.insert(field.name);
    }
  }

  static bool is_context(std::string_view type) { return type.starts_with("s_") && has_part(type, {"Ctx_"}); }

  bool names_a_view(Span type) const {
    for (size_t at = type.begin; at < type.end; ++at) {
      if (types_.count(code_[at]) > 0) return true;
    }
    return false;
  }

  // Names carry numbers that make them unique in the whole text, but for those of members. A function's own name stands for what it
  // returns.
  void find_variables(const EmittedFunction& function) {
    variables_.insert(function.name);
    functions_.emplace(function.name, &function);
    for (const EmittedParameter& parameter : function.parameters) {
      if (names_a_view(parameter.whole_type)) variables_.insert(parameter.name);
    }
    const Span body = function.body.span;
    for (size_t at = body.begin; at + 1 < body.end; ++at) {
      if (types_.count(code_[at]) == 0) continue;
      size_t name = at + 1;
      while (name < body.end && !code_.is_name(name) && code_[name] != ";") ++name;
      if (code_.is_name(name)) variables_.insert(code_[name]);
    }
  }

  bool is_variable(size_t at) const { return !code_.is_member(at) && variables_.count(code_[at]) > 0; }

  // A variable and its parts, as in `(&ctx_0->_S1)->primal_0`.
  struct Chain {
    std::string_view variable;  // or a context's field
    bool is_object = false;  // of a member that is called: `(x->primal_0).load<float>(i)`
  };

  Chain chain(size_t at, size_t end) const {
    Chain found{code_[at], false};
    for (++at; at < end; ++at) {
      if (code_[at] == "[") at = code_.closing(at, end);
      const bool is_member = code_.is_member(at);
      if (is_member && context_fields_.count(code_[at]) > 0) found.variable = code_[at];
      found.is_object = code_.is_name(at) && (code_[at + 1] == "(" || code_[at + 1] == "<");
      const bool goes_on =
          is_member || code_[at] == ")" || code_[at] == "]" || code_[at] == "." || code_[at] == "-" || code_[at] == ">";
      if (found.is_object || !goes_on) break;
    }
    return found;
  }

  std::vector<std::string_view> variables_in(Span span) const {
    std::vector<std::string_view> found;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (is_variable(at)) found.push_back(chain(at, span.end).variable);
    }
    return found;
  }

  void read_statements(const EmittedFunction& function) {
    const Span body = function.body.span;
    size_t begin = body.begin;
    for (size_t at = body.begin; at < body.end; ++at) {
      const std::string_view token = code_[at];
      if (token == "{" && at > 0 && code_[at - 1] == "=") {
        at = code_.closing(at, body.end);
      } else if (token == ";" || token == "{" || token == "}") {
        if (code_[begin] == "return") {
          read_value(function.name, {begin, at});
        } else {
          read_assignment({begin, at});
        }
        begin = at + 1;
      }
    }
    for (size_t at = body.begin; at < body.end; ++at) {
      if (code_.is_member(at)) note_access(Access(code_[at]), object_of(body.begin, at));
    }
  }

  void read_calls(Span body) {
    for (size_t at = body.begin; at < body.end; ++at) {
      if (code_.is_name(at) && code_[at + 1] == "(" && !code_.is_member(at)) read_call(at, body.end);
    }
  }

  // Of `object.store`.
  Span object_of(size_t begin, size_t member) const {
    const size_t dot = code_[member - 1] == "." ? member - 1 : member - 2;
    size_t at = dot - 1;
    if (code_[at] != ")") return {at, dot};
    int depth = 0;
    for (; at > begin; --at) {
      if (code_[at] == ")") ++depth;
      if (code_[at] == "(" && --depth == 0) break;
    }
    return {at, dot};
  }

  void note_access(Access access, Span object) {
    if (access.loads) note(object, loaded_);
    if (access.stores) note(object, stored_);
  }

  void note(Span span, Found& found) {
    for (const std::string_view variable : variables_in(span)) found.variables.insert(variable);
    for_views_in(span, [&](int view) { found.views.insert(view); });
  }

  // The left side of `=` gets the value of the right side.
  void read_assignment(Span statement) {
    size_t equals = statement.begin;
    while (equals < statement.end && code_[equals] != "=") ++equals;
    if (equals == statement.end) return;
    const Span value{equals + 1, statement.end};
    for (const std::string_view to : variables_in({statement.begin, equals})) {
      assigned_.insert(to);
      read_value(to, value);
    }
    if (code_[value.begin] != "{") return;
    for (const std::string_view field : context_fields_) read_value(field, value);  // of a context, perhaps
  }

  void read_value(std::string_view to, Span value) {
    for (size_t at = value.begin; at < value.end; ++at) {
      const bool is_call = functions_.count(code_[at]) > 0 && code_[at + 1] == "(";
      if (is_variable(at) && !is_call) {
        const Chain from = chain(at, value.end);
        if (!from.is_object) sources_[to].insert(from.variable);
      }
      if (is_call) sources_[to].insert(code_[at]);
      if (is_call) at = code_.closing(at + 1, value.end);
    }
    for_views_in(value, [&](int view) { views_[to].insert(view); });
  }

  // `tsl_view((int(3)))`
  template <class Use>
  void for_views_in(Span span, const Use& use) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] != "tsl_view") continue;
      size_t number = at;
      while (number < span.end && !code_.is_number(number)) ++number;
      if (number < span.end) use(std::stoi(std::string(code_[number])));
    }
  }

  // Parameters have the arguments; where a function assigns to one, an address, its caller has the assigned value.
  void read_call(size_t at, size_t end) {
    const auto callee = functions_.find(code_[at]);
    const bool is_foreign = callee == functions_.end();
    if (is_foreign && is_harmless(at)) return;
    for_arguments(at + 1, end, [&](size_t number, Span argument) {
      if (is_foreign) {
        if (may_be_view(argument)) note(argument, loaded_), note(argument, stored_);
        return;
      }
      if (number >= callee->second->parameters.size()) return;
      const std::string_view parameter = callee->second->parameters[number].name;
      read_value(parameter, argument);
      if (assigned_.count(parameter) == 0) return;
      for (const std::string_view variable : variables_in(argument)) sources_[variable].insert(parameter);
    });
  }

  // Keywords, constructors, and functions of the prelude but for those of matrices: what they do to views is done to gradients.
  bool is_harmless(size_t at) const {
    const std::string_view name = code_[at];
    if (name.starts_with("tsl_")) return !name.starts_with("tsl_store_") && !name.starts_with("tsl_multiply");
    return name == "if" || name == "while" || name == "for" || name == "switch" || name == "return" ||
           name.starts_with("make_") || types_.count(name) > 0 || std::ranges::find(kNumbers, name) != kNumbers.end();
  }

  // A variable or a part of one, or a choice between some: what is computed of views is none.
  bool may_be_view(Span argument) const {
    for (size_t at = argument.begin; at < argument.end; ++at) {
      if (code_[at] == "?") return true;
    }
    return lvalue_of(code_, argument).has_value();
  }

  template <class Use>
  void for_arguments(size_t open, size_t end, const Use& use) const {
    const size_t close = code_.closing(open, end);
    size_t begin = open + 1, number = 0;
    int depth = 0;
    for (size_t i = begin; i <= close; ++i) {
      if (code_[i] == "(" || code_[i] == "[" || code_[i] == "{") ++depth;
      if ((code_[i] == ")" || code_[i] == "]" || code_[i] == "}") && i != close) --depth;
      if (i != close && (depth > 0 || code_[i] != ",")) continue;
      use(number++, Span{begin, i});
      begin = i + 1;
    }
  }

  const EmittedCode& code_;
  std::set<std::string_view> types_, context_fields_;
  std::map<std::string_view, const EmittedFunction*> functions_;
  std::set<std::string_view> variables_, assigned_;
  std::map<std::string_view, std::set<std::string_view>> sources_;
  std::map<std::string_view, std::set<int>> views_;
  Found loaded_, stored_;
};

}  // namespace

AccessedViews accessed_views(const EmittedCode& code) { return ViewFlow(code).accessed(); }

bool needs_written_views(const Function& function) {
  return function.refusal.empty() && std::any_of(function.leaves.begin(), function.leaves.end(), may_be_written);
}

void note_written_views(Function& function, const DeviceText& text) {
  const std::set<int> written(text.stored.begin(), text.stored.end());
  bool gives_nothing = text.error.empty();
  for (Leaf& leaf : function.leaves) {
    if (may_be_written(leaf)) leaf.view().is_written = written.count(leaf.place().primal_view) > 0;
    gives_nothing = gives_nothing && !leaf.is_output && !leaf.is_written();
  }
  if (gives_nothing && function.refusal.empty()) function.refusal = kGivesNothing;
}

}  // namespace torch_slang
