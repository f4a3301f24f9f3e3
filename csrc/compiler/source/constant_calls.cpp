#include "compiler/source/constant_calls.h"

#include <c10/util/StringUtil.h>

#include <optional>

#include "compiler/source/function_heads.h"

namespace torch_slang {
namespace {

constexpr const char* kTreat = "TreatAsDifferentiable";

bool is_out(std::string_view word) { return word == "out" || word == "inout"; }

// Whether the parameter that begins there is `out` or `inout`: one of its modifiers says so, as the second of `in out` does.
bool is_out_parameter(const SourceCode& code, size_t at) {
  while (code.is_name(at) && !is_out(code[at])) ++at;
  return is_out(code[at]);
}

// The name of the parameter, or argument, that begins there: its last word before a default, an array's size or the end.
size_t parameter_name(const SourceCode& code, size_t at, size_t close) {
  size_t name = at;
  for (; at < close && code[at] != "=" && code[at] != "[" && code[at] != ",";
       at = code[at] == "<" ? code.behind_angles(at) : at + 1) {
    if (code.is_name(at)) name = at;
  }
  return name;
}

class Rewriter {
 public:
  Rewriter(SourceCode& code, const OutParameters& outs) : code_(code), outs_(outs) {}

  void rewrite() {
    for (const FunctionHead& head : function_heads(code_)) {
      if (head.has(kTreat)) treat(head);
      if (!head.is_differentiable()) continue;
      outs_here_.clear();
      for (const size_t at : parameter_begins(code_, head.open)) note_parameter(at, head.close);
      for (size_t at = head.body; at < head.end; ++at) {
        if (word(at) == "no_diff") constant(at);
        if (word(at) == "=" && word(at + 1) == "detach" && word(at + 2) == "(") stop_parameter(at);
      }
    }
  }

 private:
  std::string_view word(size_t at) const { return code_[at]; }
  void replace(size_t at, std::string text) { code_.replace({at, at + 1}, std::move(text)); }
  // In one line, without comments.
  std::string text(size_t begin, size_t end) const {
    std::string text;
    for (size_t at = begin; at < end; ++at) {
      text += c10::str(at == begin || code_.is_joined(at - 1) ? "" : " ", word(at));
    }
    return text;
  }

  void note_parameter(size_t at, size_t close) {
    const std::string_view name = word(parameter_name(code_, at, close));
    bool is_constant = false;  // it has no derivative to be taken
    for (; word(at) != name && at < close; ++at) {
      is_constant = is_constant || word(at) == "no_diff";
      if (is_out(word(at)) && !is_constant) outs_here_.emplace(name);
    }
  }

  // The end of the call or of the element that `no_diff` stands before; none where it is something else.
  std::optional<size_t> operand_end(size_t at) const {
    size_t end = at;
    bool is_call = word(at) == "(";
    if (!is_call && !code_.is_name(at)) return {};
    end = is_call ? code_.closing(at) + 1 : at + 1;
    for (;;) {
      if (word(end) == "<") {
        const size_t angles = code_.behind_angles(end);
        if (angles == end || word(angles - 1) != ">" || (word(angles) != "(" && word(angles) != ".")) break;
        end = angles;
      } else if (word(end) == "(" || word(end) == "[") {
        end = code_.closing(end) + 1;
        is_call = true;
      } else if (word(end) == "." && code_.is_name(end + 1)) {
        end += 2;
      } else if (word(end) == ":" && word(end + 1) == ":") {
        end += 3;
      } else {
        break;
      }
    }
    return is_call && !code_.is_name(end) ? std::optional(end) : std::nullopt;
  }

  bool is_statement(size_t at) const {
    const std::string_view before = word(at - 1);
    if (before == ";" || before == "{" || before == "}" || before == "else" || before == "do") return true;
    if (before != ")") return false;
    const std::string_view head = word(code_.opening(at - 1) - 1);
    return head == "if" || head == "for" || head == "while";
  }

  void constant(size_t at) {
    const auto end = operand_end(at + 1);
    if (!end) return;
    std::vector<std::string> changed;
    for (size_t open = at + 1; open < *end; ++open) {
      if (word(open) == "(") add_changed(open, changed);
    }
    if (is_statement(at)) {
      if (changed.empty() || word(*end) != ";") return;
      code_.insert(at, "{ ");
      std::string stops;
      for (const std::string& one : changed) stops += " tsl_stop(" + one + ");";
      code_.insert_behind(*end, stops + " }");
      return;
    }
    std::string done;
    for (const std::string& one : changed) done += c10::str(done.empty() ? ", " : " + ", "tsl_stop(", one, ")");
    code_.insert(at, "tsl_constant(");
    code_.insert_behind(*end - 1, done + ")");
  }

  // The arguments of the call that it changes, as far as they are variables.
  void add_changed(size_t open, std::vector<std::string>& changed) const {
    const size_t name = (word(open - 1) == ">" ? code_.opening_angle(open - 1) : open) - 1;
    const auto found = outs_.find(word(name));
    if (found == outs_.end()) return;
    const std::vector<size_t> begins = parameter_begins(code_, open);
    for (const size_t index : found->second) {
      if (index >= begins.size() || !code_.is_name(begins[index])) continue;
      const size_t end = index + 1 < begins.size() ? begins[index + 1] - 1 : code_.closing(open);
      bool is_variable = true;
      for (size_t at = begins[index]; at < end; ++at) {
        const std::string_view one = word(at);
        is_variable =
            is_variable && (code_.is_name(at) || code_.is_number(at) || one == "." || one == "[" || one == "]");
      }
      if (is_variable) changed.push_back(text(begins[index], end));
    }
  }

  void stop_parameter(size_t equals) {
    size_t begin = equals;
    while (begin > 0 && (code_.is_name(begin - 1) || word(begin - 1) == "." || word(begin - 1) == "]")) {
      begin = word(begin - 1) == "]" ? code_.opening(begin - 1) : begin - 1;
    }
    if (outs_here_.count(word(begin)) > 0) replace(equals + 1, "tsl_constant");
  }

  // `[Differentiable] float g(float x) { return tsl_constant(no_diff tsl_g(x)); } float tsl_g(float x) { ... }`
  // A constructor's own code becomes a method, and that of an operator a function with a name.
  void treat(const FunctionHead& head) {
    const bool is_constructor = word(head.name) == "__init", is_operator = word(head.name) == "operator";
    const std::string own =
        is_operator ? c10::str("tsl_treated_", treated_++) : c10::str("tsl_treated_", word(head.name));
    std::string arguments, stops = is_constructor ? " tsl_stop(this);" : "";
    for (const size_t at : parameter_begins(code_, head.open)) {
      const std::string argument(word(parameter_name(code_, at, head.close)));
      arguments += (arguments.empty() ? "" : ", ") + argument;
      if (is_out_parameter(code_, at)) stops += " tsl_stop(" + argument + ");";
    }
    const bool returns = !is_constructor && text(head.type, head.name) != "void";
    std::string call = c10::str("no_diff ", own, "(", arguments, ")");
    if (returns) {
      call = c10::str("var tsl_result = tsl_constant(", call, ");", stops, " return tsl_result;");
    } else {
      call += ";" + stops;
    }
    std::string attributes;
    for (size_t at = head.begin; at < head.type; ++at) {
      const bool is_treat = word(at) == kTreat;
      attributes += c10::str(" ", is_treat ? std::string_view("Differentiable") : word(at));
      if (is_treat) replace(at, is_constructor ? "TorchSlangTreated, mutating" : "TorchSlangTreated");
      if (names_other_function(word(at))) take_away(at);
      if (word(at) == "override") replace(at, "");
    }
    code_.insert(head.begin, c10::str(attributes, " ", text(head.type, head.body), " { ", call, " } "));
    for (size_t at = head.body; at < head.end; ++at) {
      if (word(at) == "no_diff") replace(at, "");  // Slang allows it in differentiable functions only
    }
    if (!is_operator) return replace(head.name, is_constructor ? "void " + own : own);
    for (size_t at = head.type; at < head.name; ++at) {
      if (word(at) == "__prefix" || word(at) == "__postfix") replace(at, "");
    }
    for (size_t at = head.name; at < head.open; ++at) replace(at, at == head.name ? own : "");
  }

  static bool names_other_function(std::string_view attribute) {
    return attribute == "ForwardDerivativeOf" || attribute == "BackwardDerivativeOf" ||
           attribute == "PrimalSubstituteOf";
  }

  // An attribute with arguments, which goes to the new function.
  void take_away(size_t attribute) {
    replace(attribute, "TorchSlangTreated");
    for (size_t at = attribute + 1; at <= code_.closing(attribute + 1); ++at) replace(at, "");
  }

  SourceCode& code_;
  const OutParameters& outs_;
  int treated_ = 0;  // operators
  Names outs_here_;  // parameters of the function that is looked at
};

}  // namespace

void add_out_parameters(const SourceCode& code, OutParameters& found) {
  found["sincos"] = {1, 2};
  found["modf"] = found["frexp"] = {1};
  for (const FunctionHead& head : function_heads(code)) {
    const std::vector<size_t> begins = parameter_begins(code, head.open);
    for (size_t index = 0; index < begins.size(); ++index) {
      if (is_out_parameter(code, begins[index])) found[std::string(code[head.name])].insert(index);
    }
  }
}

void make_calls_constant(SourceCode& code, const OutParameters& outs) { Rewriter(code, outs).rewrite(); }

}  // namespace torch_slang
