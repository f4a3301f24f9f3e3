#include "compiler/source/crash_hints.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "compiler/source/called_functions.h"
#include "compiler/source/declared_floats.h"
#include "compiler/source/derivative_calls.h"
#include "compiler/source/differentiable_functions.h"
#include "compiler/source/statements.h"

namespace torch_slang {
namespace {

constexpr const char* kForward =
    "a [ForwardDerivative] function that is not [Differentiable], in a second derivative; mark it [Differentiable]";

constexpr const char* kEarly = "a `return` before a function's end, in a second derivative; return once, at the end";

class Hints {
 public:
  Hints(const std::string& source, const std::string& path, bool second_derivative, const std::string& function)
      : code_(source, path),
        floats_(code_),
        second_derivative_(second_derivative),
        called_(function.empty() ? floats_.functions() : called_functions(code_, floats_.functions(), function)) {}

  std::string text() {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) == "return" && loops_around(at).size() > 1)
        add(at, "a `return` out of two loops; set a flag there, leave both loops by `break`, and return behind them");
      if (word(at) == "switch") look_for_fall_through(closing(at + 1) + 1);
      if (second_derivative_ && has_forward_derivative_without_derivatives(at)) add(at, kForward);
      if (second_derivative_ && word(at) == "return" && is_early_return(at)) add(at, kEarly);
      if (word(at) == "property" && is_differentiable(at)) add(at, "a `property` with derivatives; make it a function");
    }
    for (const SourceFunction& function : called_) look_at_operators(function);
    find_derivative_calls(code_, floats_.functions(), called_, [this](size_t at, const char* what) { add(at, what); });
    return text_.empty() ? text_ : "Constructs in this source that are known to crash it:" + text_;
  }

 private:
  std::string_view word(size_t at) const { return code_[at]; }
  size_t closing(size_t open) const { return code_.closing(open); }

  // The first words of the loops whose bodies it is in, the innermost first.
  std::vector<size_t> loops_around(size_t at) const {
    std::vector<size_t> heads;
    for (size_t head = at; head-- > 0;) {
      const bool is_do = word(head) == "do";
      if (!is_do && word(head) != "for" && word(head) != "while") continue;
      const size_t body = is_do ? head + 1 : closing(head + 1) + 1;
      if (body <= at && at < behind_statement(code_, body)) heads.push_back(head);
    }
    return heads;
  }

  // Of other types they have derivatives: Note [quotients] in ir/quotients.h.
  void look_at_operators(const SourceFunction& function) {
    bool has_float_types = false;
    for (size_t at = 0; at < code_.size(); ++at) has_float_types = has_float_types || word(at) == "IFloat";
    if (!has_float_types) return;
    for (size_t at = function.body; at < function.end; ++at) {
      if (word(at) == "%" && is_of_floats(function, at))
        add(at, "`x % y` of a type that is IFloat; let it be __BuiltinFloatingPointType, or IReal");
    }
  }

  // The right operand of `x % y` and of `x %= y`.
  size_t right_of(size_t at) const { return word(at + 1) == "=" ? at + 2 : at + 1; }

  bool is_of_floats(const SourceFunction& function, size_t at) const {
    return floats_.kind(function, floats_.before(at)) != FloatKind::None ||
           floats_.kind(function, floats_.from(right_of(at))) != FloatKind::None;
  }

  bool is_differentiable(size_t at) const {
    while (at < code_.size() && word(at) != "{" && word(at) != ";") ++at;
    const size_t end = closing(at);
    for (; at < end; ++at) {
      if (word(at).ends_with("Differentiable")) return true;
    }
    return false;
  }

  // A `return` that is not the last statement of a function.
  bool is_early_return(size_t at) const {
    for (const SourceFunction& function : floats_.functions()) {
      if (function.body < at && at < function.end) return at != code_.last_statement(function.body);
    }
    return false;
  }

  // `[ForwardDerivative(g)]` where g, and `[ForwardDerivativeOf(f)]` where what stands under it, is not [Differentiable].
  bool has_forward_derivative_without_derivatives(size_t at) const {
    if (word(at + 1) != "(") return false;
    if (word(at) == "ForwardDerivativeOf") return !is_declared_differentiable(code_, closing(at + 1));
    if (word(at) != "ForwardDerivative") return false;
    for (size_t other = 1; other < code_.size(); ++other) {
      const bool is_declared = code_.is_name(other - 1) || word(other - 1) == ">";
      const bool has_parameters = word(other + 1) == "(" || word(other + 1) == "<";
      if (word(other) == word(at + 2) && is_declared && has_parameters)
        return !is_declared_differentiable(code_, other);
    }
    return false;
  }

  // A case that has statements, the last of which does not leave.
  void look_for_fall_through(size_t open) {
    for (size_t at = open + 1, end = closing(open); at < end; ++at) {
      if (word(at) == "{") at = closing(at);
      const bool label = word(at) == "case" || word(at) == "default";
      if (label && word(at - 1) != "{" && word(at - 1) != ":" && !leaves(at))
        add(at, "a case into which the one before it falls; end each with `break`");
    }
  }

  // The statement that ends before `at`, perhaps in a block.
  bool leaves(size_t at) const {
    while (word(at - 1) == "}") --at;
    size_t begin = at - 1;
    while (begin > 0 && word(begin - 1) != ";" && word(begin - 1) != "{" && word(begin - 1) != "}" &&
           word(begin - 1) != ":")
      --begin;
    return word(begin) == "break" || word(begin) == "return" || word(begin) == "continue" || word(begin) == "discard";
  }

  // In a function that is not called.
  bool is_elsewhere(size_t at) const {
    const auto holds = [at](const SourceFunction& one) { return one.body < at && at < one.end; };
    const auto& all = floats_.functions();
    return std::any_of(all.begin(), all.end(), holds) && std::none_of(called_.begin(), called_.end(), holds);
  }

  void add(size_t at, const char* what) {
    if (is_elsewhere(at)) return;
    text_ += c10::str("\n", code_.location(at), ": ", what);
  }

  const SourceCode code_;
  const SourceFloats floats_;
  const bool second_derivative_;
  const std::vector<SourceFunction> called_;
  std::string text_;
};

}  // namespace

std::string crash_hints(const std::string& source, const std::string& path, bool second_derivative,
                        const std::string& function) {
  return Hints(source, path, second_derivative, function).text();
}

bool is_crash(const std::string& diagnostics) {
  constexpr std::string_view kSigns[] = {"internal compiler error", "Slang compilation aborted", "assert failure",
                                         "error[E40017]", "error[E50101]"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](std::string_view word) { return diagnostics.find(word) != std::string::npos; });
}

}  // namespace torch_slang
