#include "compiler/emit/written_views.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "compiler/emit/emitted_code.h"
#include "compiler/reflect/elementwise_function.h"

namespace torch_slang {
namespace {

constexpr std::string_view kView = "TensorView";

bool may_be_written(const Leaf& leaf) { return leaf.is_whole && !leaf.is_in && !leaf.is_written && leaf.diff_view < 0; }

class ViewFlow {
 public:
  explicit ViewFlow(const EmittedCode& code) : code_(code) {
    find_types();
    for (const EmittedFunction& function : code.functions()) find_variables(function);
    for (const EmittedFunction& function : code.functions()) read_statements(function.body.span);
    for (const EmittedFunction& function : code.functions()) read_calls(function.body.span);
  }

  std::set<int> written() {
    std::vector<std::string_view> open(written_.begin(), written_.end());
    std::set<int> views;
    while (!open.empty()) {
      const std::string_view variable = open.back();
      open.pop_back();
      if (const auto own = views_.find(variable); own != views_.end())
        views.insert(own->second.begin(), own->second.end());
      for (const std::string_view source : sources_[variable]) {
        if (written_.insert(source).second) open.push_back(source);
      }
    }
    return views;
  }

 private:
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
  }

  bool names_a_view(Span type) const {
    for (size_t at = type.begin; at < type.end; ++at) {
      if (types_.count(code_[at]) > 0) return true;
    }
    return false;
  }

  // Names carry numbers that make them unique in the whole text, but for those of members.
  void find_variables(const EmittedFunction& function) {
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

  std::vector<std::string_view> variables_in(Span span) const {
    std::vector<std::string_view> found;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (is_variable(at)) found.push_back(code_[at]);
    }
    return found;
  }

  void read_statements(Span body) {
    size_t begin = body.begin;
    for (size_t at = body.begin; at < body.end; ++at) {
      const std::string_view token = code_[at];
      if (token == ";" || token == "{" || token == "}") {
        read_assignment({begin, at});
        begin = at + 1;
      } else if (code_.is_member(at) && (token.starts_with("store") || token.starts_with("data_ptr"))) {
        note_written(body.begin, at - 1);
      }
    }
  }

  void read_calls(Span body) {
    for (size_t at = body.begin; at < body.end; ++at) {
      if (code_.is_name(at) && code_[at + 1] == "(") read_call(at, body.end);
    }
  }

  // `object.store(...)`: the dot is at `dot`.
  void note_written(size_t begin, size_t dot) {
    size_t at = dot - 1;
    if (code_[at] != ")") {
      if (is_variable(at)) written_.insert(code_[at]);
      return;
    }
    int depth = 0;
    for (; at > begin; --at) {
      if (code_[at] == ")") ++depth;
      if (code_[at] == "(" && --depth == 0) break;
    }
    for (const std::string_view variable : variables_in({at, dot})) written_.insert(variable);
  }

  // The left side of `=` gets the value of the right side.
  void read_assignment(Span statement) {
    size_t equals = statement.begin;
    while (equals < statement.end && code_[equals] != "=") ++equals;
    if (equals == statement.end) return;
    const Span value{equals + 1, statement.end};
    for (const std::string_view to : variables_in({statement.begin, equals})) {
      assigned_.insert(to);
      for (const std::string_view from : variables_in(value)) sources_[to].insert(from);
      read_views(to, value);
    }
  }

  // `tsl_view((int(3)))`
  void read_views(std::string_view to, Span value) {
    for (size_t at = value.begin; at < value.end; ++at) {
      if (code_[at] != "tsl_view") continue;
      size_t number = at;
      while (number < value.end && !code_.is_number(number)) ++number;
      if (number < value.end) views_[to].insert(std::stoi(std::string(code_[number])));
    }
  }

  // Parameters have the arguments; where a function assigns to one, an address, its caller has the assigned value.
  void read_call(size_t at, size_t end) {
    const auto& functions = code_.functions();
    const auto callee = std::find_if(functions.begin(), functions.end(),
                                     [&](const EmittedFunction& one) { return one.name == code_[at]; });
    if (callee == functions.end()) return;
    const size_t close = code_.closing(at + 1, end);
    size_t begin = at + 2, number = 0;
    int depth = 0;
    for (size_t i = begin; i <= close && number < callee->parameters.size(); ++i) {
      if (code_[i] == "(" || code_[i] == "[" || code_[i] == "{") ++depth;
      if ((code_[i] == ")" || code_[i] == "]" || code_[i] == "}") && i != close) --depth;
      if (i != close && (depth > 0 || code_[i] != ",")) continue;
      for (const std::string_view argument : variables_in({begin, i})) {
        sources_[callee->parameters[number].name].insert(argument);
        if (assigned_.count(callee->parameters[number].name) > 0)
          sources_[argument].insert(callee->parameters[number].name);
      }
      begin = i + 1;
      ++number;
    }
  }

  const EmittedCode& code_;
  std::set<std::string_view> types_;
  std::set<std::string_view> variables_, assigned_;
  std::map<std::string_view, std::set<std::string_view>> sources_;
  std::map<std::string_view, std::set<int>> views_;
  std::set<std::string_view> written_;
};

}  // namespace

std::set<int> written_views(const std::string& body) {
  if (body.find("store") == std::string::npos && body.find("data_ptr") == std::string::npos) return {};
  const EmittedCode code(body);
  return ViewFlow(code).written();
}

bool needs_written_views(const Function& function) {
  return function.refusal.empty() && std::any_of(function.leaves.begin(), function.leaves.end(), may_be_written);
}

void note_written_views(Function& function, const DeviceText& text) {
  const std::set<int> written = written_views(text.body);
  bool gives_nothing = text.error.empty();
  for (Leaf& leaf : function.leaves) {
    if (may_be_written(leaf)) leaf.is_written = written.count(leaf.primal_view) > 0;
    gives_nothing = gives_nothing && !leaf.is_output && !leaf.is_written;
  }
  if (gives_nothing && function.refusal.empty()) function.refusal = kGivesNothing;
}

}  // namespace torch_slang
