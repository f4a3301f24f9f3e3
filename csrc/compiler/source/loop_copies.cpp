#include "compiler/source/loop_copies.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "compiler/source/constant_calls.h"
#include "compiler/source/function_heads.h"
#include "compiler/source/statements.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 20> kNumbers = {"bool",      "half",      "float",     "double",    "int",
                                                       "uint",      "int8_t",    "int16_t",   "int32_t",   "int64_t",
                                                       "uint8_t",   "uint16_t",  "uint32_t",  "uint64_t",  "intptr_t",
                                                       "uintptr_t", "float16_t", "float32_t", "float64_t", "size_t"};
constexpr std::array<std::string_view, 4> kLiterals = {"true", "false", "none", "nullptr"};
constexpr std::array<std::string_view, 6> kNoTypes = {"return", "else", "case", "in", "out", "inout"};
constexpr std::array<std::string_view, 4> kConstant = {"let", "const", "static", "constexpr"};

bool is_interface(std::string_view type) {
  return type.size() > 1 && type[0] == 'I' && std::isupper(static_cast<unsigned char>(type[1])) != 0;
}

struct Loop {
  size_t begin, body, end;  // where the loop begins, where its head ends, and the first token behind the loop
};

// The functions of a file that change arguments, and the methods that change their object.
struct Changers {
  Changers(const SourceCode& code, const std::vector<FunctionHead>& heads) {
    add_out_parameters(code, outs);
    for (const FunctionHead& head : heads) {
      if (head.has("mutating")) methods.emplace(code[head.name]);
    }
  }

  OutParameters outs;
  Names methods;
};

class Function {
 public:
  Function(SourceCode& code, const FunctionHead& head, const Changers& changers)
      : code_(code),
        head_(head),
        changers_(changers),
        is_inlined_(head.has("ForceInline") || head.has("__unsafeForceInlineEarly")) {
    for (size_t at = head.body; at < head.end; ++at) {
      const bool is_loop = code[at] == "for" || code[at] == "do";
      if (is_loop && !is_unrolled(at))
        loops_.push_back({at, code[at] == "for" ? code.closing(at + 1) : at, behind_statement(code, at)});
    }
  }

  void write_calls() {
    if (loops_.empty() && !is_inlined_) return;
    if (is_inlined_) renew_parameters();
    for (size_t at = head_.body; at < head_.end; ++at) {
      const bool is_returned = is_inlined_ && code_[at] == "return" && is_parameter(code_[at + 1]);
      if ((is_returned || is_assignment(at)) && is_alone(at + 1) && may_share(at + 1)) copy(at + 1);
    }
  }

 private:
  bool is_unrolled(size_t loop) const {
    for (size_t at = loop; code_[at - 1] == "]"; at = code_.opening(at - 1)) {
      for (size_t i = code_.opening(at - 1); i < at; ++i) {
        if (code_[i] == "ForceUnroll") return true;
      }
    }
    return false;
  }

  // A name, and nothing else, is the value.
  bool is_alone(size_t at) const {
    return code_.is_name(at) && !is_among(kLiterals, code_[at]) && (code_[at + 1] == ";" || code_[at + 1] == ",");
  }

  bool is_assignment(size_t at) const {
    if (code_[at] != "=" || code_[at + 1] == "=") return false;
    return code_.is_name(at - 1) || code_[at - 1] == "]";
  }

  void copy(size_t at) { code_.replace({at, at + 1}, "tsl_copy(" + std::string(code_[at]) + ")"); }

  // The innermost around a token.
  const Loop* loop_around(size_t at) const {
    const Loop* found = nullptr;
    for (const Loop& one : loops_) {
      if (one.begin < at && at < one.end) found = &one;
    }
    return found;
  }

  // Whether the value at `at`, which is copied there, may be one that the next iteration needs, and the copy may be changed in parts.
  bool may_share(size_t at) const {
    const Loop* loop = loop_around(at);
    if (loop == nullptr && !is_inlined_) return false;
    const std::optional<size_t> copied = declaration_of(at);
    if (copied && is_number(*copied)) return false;
    if (copied && loop != nullptr && *copied > loop->body && !may_be_another(*copied)) return false;
    return (code_[at - 1] == "return" || changes_parts(variable_before(at - 1))) && (!copied || may_change(*copied));
  }

  // Whether a variable has the value of another at times.
  bool may_be_another(size_t declaration) const {
    for (size_t at = declaration; at < head_.end; ++at) {
      if (code_[at] == code_[declaration] && !code_.is_member(at) && is_assignment(at + 1) && is_alone(at + 2))
        return true;
    }
    return false;
  }

  // That of `variable.field[i] =`.
  size_t variable_before(size_t equals) const {
    size_t at = equals - 1;
    while (code_[at] == "]" || code_.is_member(at)) at = code_[at] == "]" ? code_.opening(at) - 1 : at - 2;
    return at;
  }

  bool changes_parts(size_t variable) const {
    const std::optional<size_t> declared = declaration_of(variable);
    if (declared && (is_number(*declared) || is_constant(*declared))) return false;
    for (size_t at = head_.body; at < head_.end; ++at) {
      const bool is_whole = code_[at + 1] != "[" && code_[at + 1] != "." && is_assignment(at + 1);
      if (code_[at] == code_[variable] && !code_.is_member(at) && !is_whole && is_changed(at)) return true;
    }
    return false;
  }

  // The last declaration before `at`, or at it, of the variable that is named there.
  std::optional<size_t> declaration_of(size_t at) const {
    for (size_t i = at; i > head_.open; --i) {
      if (code_[i] == code_[at] && is_declaration(i)) return i;
    }
    return {};
  }

  bool is_declaration(size_t at) const {
    if (code_.is_member(at) || at <= head_.open) return false;
    const std::string_view before = code_[at - 1];
    return (code_.is_name(at - 1) && !is_among(kNoTypes, before)) || before == ">" || before == "]";
  }

  bool is_number(size_t declaration) const {
    const std::string_view type = code_[declaration - 1];
    return (is_among(kNumbers, type) && code_[declaration + 1] != "[") || is_interface(type);
  }

  bool is_constant(size_t declaration) const {
    for (size_t at = code_.declaration(declaration); at < declaration; ++at) {
      if (is_among(kConstant, code_[at])) return true;
    }
    return false;
  }

  bool is_parameter(std::string_view name) const {
    if (name == "this") return true;
    for (size_t at = head_.open + 1; at < head_.close; ++at) {
      if (code_[at] == name && is_declaration(at)) return true;
    }
    return false;
  }

  // A variable that is declared with the value of an expression, or a parameter, and that nothing changes, does not.
  bool may_change(size_t declaration) const {
    const bool is_parameter = declaration < head_.close;
    if (is_parameter && is_inlined_) return true;
    if (!is_parameter && (code_[declaration + 1] != "=" || is_alone(declaration + 2))) return true;
    for (size_t at = std::max(declaration + 1, head_.body); at < head_.end; ++at) {
      if (code_[at] == code_[declaration] && !code_.is_member(at) && is_changed(at)) return true;
    }
    return false;
  }

  // The variable, or a part of it, is assigned, or is the argument or object of a call that changes it.
  bool is_changed(size_t at) const {
    size_t end = at + 1;
    while (code_[end] == "[" || code_[end] == ".") end = code_[end] == "[" ? code_.closing(end) + 1 : end + 2;
    const std::string_view before = code_[at - 1], behind = code_[end], next = code_[end + 1];
    if (behind == "=") return next != "=";
    if (behind == "(") return end > at + 2 && changers_.methods.count(code_[end - 1]) > 0;
    const bool is_joined_to = !behind.empty() && std::string_view("+-*/%&|^").find(behind) != std::string_view::npos &&
                              (next == "=" || next == behind);
    const bool is_counted = (before == "+" || before == "-") && code_[at - 2] == before;
    const bool is_argument = (before == "(" || before == ",") && (behind == ")" || behind == ",");
    return is_joined_to || is_counted || (is_argument && is_changed_by_call(at));
  }

  bool is_changed_by_call(size_t argument) const {
    size_t index = 0, open = argument - 1;
    for (; open > head_.body && code_[open] != "("; --open) {
      if (closes(code_[open])) open = code_.opening(open);
      if (code_[open] == ",") ++index;
    }
    const size_t name = (code_[open - 1] == ">" ? code_.opening_angle(open - 1) : open) - 1;
    const auto found = changers_.outs.find(code_[name]);
    return found != changers_.outs.end() && found->second.count(index) > 0;
  }

  // `p = tsl_copy(p);` of those that the function changes.
  void renew_parameters() {
    for (const size_t begin : parameter_begins(code_, head_.open)) {
      size_t name = begin;
      while (name < head_.close && !(code_.is_name(name) && ends_parameter(name + 1))) ++name;
      bool is_own = name > begin && !is_number(name) && code_[begin] != "let";
      for (size_t at = begin; at < name; ++at) is_own = is_own && code_[at] != "out" && code_[at] != "inout";
      if (!is_own) continue;
      const std::string text(code_[name]);
      for (size_t at = head_.body; at < head_.end; ++at) {
        if (code_[at] != text || code_.is_member(at) || !is_changed(at)) continue;
        code_.insert_behind(head_.body, " " + text + " = tsl_copy(" + text + ");");
        break;
      }
    }
  }

  bool ends_parameter(size_t at) const {
    return at == head_.close || code_[at] == "," || code_[at] == "=" || code_[at] == "[";
  }

  SourceCode& code_;
  const FunctionHead& head_;
  const Changers& changers_;
  const bool is_inlined_;
  std::vector<Loop> loops_;  // outer ones first
};

}  // namespace

void write_copies_as_calls(SourceCode& code) {
  const std::vector<FunctionHead> heads = function_heads(code);
  const Changers changers(code, heads);
  for (const FunctionHead& head : heads) {
    if (head.is_differentiable()) Function(code, head, changers).write_calls();
  }
}

}  // namespace torch_slang
