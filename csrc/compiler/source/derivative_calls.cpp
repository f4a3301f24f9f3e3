#include "compiler/source/derivative_calls.h"

#include <set>
#include <string_view>

#include "compiler/source/differentiable_functions.h"

namespace torch_slang {
namespace {

constexpr const char* kInner =
    "`bwd_diff` inside of a function that is differentiated itself; take `fwd_diff` there, one call for each "
    "direction, of a "
    "function that returns its result";
constexpr const char* kOut =
    "`fwd_diff` of a function with an `out` argument, inside of a function that is differentiated itself; return the "
    "result "
    "instead (a struct of several, declared IDifferentiable)";
constexpr const char* kMethod =
    "a derivative of an object's method; write a [Differentiable] function that calls it, `float at(no_diff S s, float "
    "x) { "
    "return s.at(x); }`, and take the derivative of that: `bwd_diff(at)(s, x, 1.0)`";
constexpr const char* kDerived =
    "a variable of an interface that has another one as its base; make the function generic over the type instead, `<S "
    ": "
    "I>`, or let the interface have no base but IDifferentiable";
constexpr const char* kConstant =
    "a `no_diff` parameter of an interface; make the function generic over the type instead, `<S : I>`, or mark the "
    "fields "
    "of the structs that have the interface `no_diff`";
constexpr const char* kReturned =
    "a function that returns an interface, called in a function that is differentiated; return the struct, or choose "
    "among the "
    "structs by an `if` where the method is called";

class DerivativeCalls {
 public:
  DerivativeCalls(const SourceCode& code, const std::vector<SourceFunction>& all,
                  const std::function<void(size_t, const char*)>& say)
      : code_(code), say_(say) {
    for (size_t at = 0; at < code.size(); ++at) note_type(at);
    for (const SourceFunction& function : all) note_function(function);
  }

  void look_at(const SourceFunction& function) {
    const bool is_differentiated = is_declared_differentiable(code_, function.begin);
    for (size_t at = function.begin; is_differentiated && at < function.body; ++at) {
      if (word(at) == "no_diff" && interfaces_.count(word(at + 1)) > 0) say_(at, kConstant);
    }
    for (size_t at = function.body; at < function.end; ++at) {
      const bool backward = word(at) == "bwd_diff" || word(at) == "__bwd_diff";
      const bool forward = word(at) == "fwd_diff" || word(at) == "__fwd_diff";
      if ((backward || forward) && word(at + 1) == "(") {
        if (is_method(at + 2)) say_(at, kMethod);
        if (backward && is_differentiated) say_(at, kInner);
        if (forward && is_differentiated && has_out_.count(word(at + 2)) > 0) say_(at, kOut);
      }
      if (is_differentiated && derived_.count(word(at)) > 0 && code_.is_name(at + 1)) say_(at, kDerived);
      if (is_differentiated && returns_interface_.count(word(at)) > 0 && word(at + 1) == "(") say_(at, kReturned);
    }
  }

 private:
  std::string_view word(size_t at) const { return code_[at]; }

  void note_type(size_t at) {
    const bool is_interface = word(at) == "interface";
    if (!is_interface && word(at) != "struct" && word(at) != "namespace") return;
    types_.insert(word(at + 1));
    if (!is_interface) return;
    interfaces_.insert(word(at + 1));
    for (size_t base = at + 2; base < code_.size() && word(base) != "{" && word(base) != ";"; ++base) {
      if (code_.is_name(base) && word(base) != "IDifferentiable") derived_.insert(word(at + 1));
    }
  }

  void note_function(const SourceFunction& function) {
    const std::string_view name = word(function.name);
    for (size_t at = function.begin; at < function.body; ++at) {
      if (word(at) == "out" || word(at) == "inout") has_out_.insert(name);
    }
    if (interfaces_.count(word(function.name - 1)) > 0) returns_interface_.insert(name);
  }

  // `s.distance`, where s is no type or namespace.
  bool is_method(size_t at) const {
    return code_.is_name(at) && word(at + 1) == "." && code_.is_name(at + 2) && types_.count(word(at)) == 0;
  }

  const SourceCode& code_;
  const std::function<void(size_t, const char*)>& say_;
  std::set<std::string_view> types_, interfaces_, derived_;
  std::set<std::string_view> has_out_, returns_interface_;  // functions
};

}  // namespace

void find_derivative_calls(const SourceCode& code, const std::vector<SourceFunction>& all,
                           const std::vector<SourceFunction>& called,
                           const std::function<void(size_t at, const char* what)>& say) {
  DerivativeCalls calls(code, all, say);
  for (const SourceFunction& function : called) calls.look_at(function);
}

}  // namespace torch_slang
