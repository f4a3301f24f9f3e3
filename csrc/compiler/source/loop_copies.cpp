#include "compiler/source/loop_copies.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

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

bool is_interface(std::string_view type) {
  return type.size() > 1 && type[0] == 'I' && std::isupper(static_cast<unsigned char>(type[1])) != 0;
}

bool is_one_of(std::string_view characters, std::string_view token) {
  return token.size() == 1 && characters.find(token[0]) != std::string_view::npos;
}

struct Loop {
  size_t begin, end;  // the first token, and the first one behind it
};

// `variable.field[i]`: two steps.
struct Place {
  size_t variable;
  int steps;
};

class Function {
 public:
  Function(SourceCode& code, const FunctionHead& head, const ChangingFunctions& changing)
      : code_(code),
        head_(head),
        changing_(changing),
        is_inlined_(head.has("ForceInline") || head.has("__unsafeForceInlineEarly")) {
    for (size_t at = head.body; at < head.end; ++at) {
      const bool is_loop = code[at] == "for" || code[at] == "do";
      if (is_loop && !is_unrolled(at)) loops_.push_back({at, behind_statement(code, at)});
    }
  }

  void write() {
    if (is_inlined_) renew_parameters();
    const bool returns_number = is_among(kNumbers, code_[head_.name - 1]);
    for (size_t at = head_.body; at < head_.end; ++at) {
      const bool is_returned = is_inlined_ && !returns_number && code_[at] == "return";
      if (is_returned || (is_assignment(at) && may_share(at))) copy(at + 1, value_end(at + 1));
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

  bool is_looped(size_t at) const {
    return std::ranges::any_of(loops_, [&](const Loop& loop) { return loop.begin < at && at < loop.end; });
  }

  // `=`, or that of `+=`.
  bool is_assignment(size_t at) const {
    if (code_[at] != "=" || code_[at + 1] == "=") return false;
    const size_t before = is_one_of("+-*/", code_[at - 1]) ? at - 2 : at - 1;
    return code_.is_name(before) || code_[before] == "]";
  }

  Place place_before(size_t equals) const {
    Place place = {is_one_of("+-*/", code_[equals - 1]) ? equals - 2 : equals - 1, 0};
    size_t& at = place.variable;
    for (; code_[at] == "]" || code_.is_member(at); ++place.steps) at = code_[at] == "]" ? code_.opening(at) - 1 : at - 2;
    if (is_declaration(at)) place.steps = 0;  // these are an array's sizes
    return place;
  }

  // Whether what is assigned may be changed in parts, as long as something else has the same value.
  bool may_share(size_t equals) const {
    if (!is_inlined_ && !is_looped(equals)) return false;
    const Place place = place_before(equals);
    const std::optional<size_t> declared = declaration_of(place.variable);
    if (declared && has_no_parts(*declared)) return false;
    const bool is_given = is_inlined_ && (!declared || *declared < head_.body);  // the caller has it then
    return is_given || changes_part_of(place);
  }

  bool changes_part_of(const Place& place) const {
    for (size_t at = head_.body; at < head_.end; ++at) {
      if (code_[at] == code_[place.variable] && !code_.is_member(at) && is_changed(at, place.steps + 1)) return true;
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

  // A number. Values of interfaces and views are no copies to Slang.
  bool has_no_parts(size_t declaration) const {
    if (is_among(kNumbers, code_[declaration - 1])) return code_[declaration + 1] != "[";
    const size_t type = (code_[declaration - 1] == ">" ? code_.opening_angle(declaration - 1) : declaration) - 1;
    return is_interface(code_[type]) || is_view_type(code_[type]);
  }

  // The variable, or a part of it that is at least so many steps away, is assigned, or is the argument or object of a call that changes
  // it.
  bool is_changed(size_t at, int least_steps) const {
    size_t end = at + 1;
    int steps = 0;
    for (; code_[end] == "[" || code_[end] == "."; ++steps) end = code_[end] == "[" ? code_.closing(end) + 1 : end + 2;
    const std::string_view before = code_[at - 1], behind = code_[end], next = code_[end + 1];
    if (behind == "(") return steps > 0 && changing_.methods.count(code_[end - 1]) > 0;
    if ((before == "(" || before == ",") && (behind == ")" || behind == ",")) return is_changed_by_call(at);
    if (steps < least_steps) return false;
    const bool is_joined_to = is_one_of("+-*/%&|^", behind) && (next == "=" || next == behind);
    const bool is_counted = is_one_of("+-", before) && code_[at - 2] == before;
    return (behind == "=" && next != "=") || is_joined_to || is_counted;
  }

  bool is_changed_by_call(size_t argument) const {
    size_t index = 0, open = argument - 1;
    for (; open > head_.body && code_[open] != "("; --open) {
      if (closes(code_[open])) open = code_.opening(open);
      if (code_[open] == ",") ++index;
    }
    const size_t name = (code_[open - 1] == ">" ? code_.opening_angle(open - 1) : open) - 1;
    return changing_.changes_argument(code_[name], index);
  }

  // The first token behind the value that begins at `at`.
  size_t value_end(size_t at) const {
    while (at < head_.end && !is_one_of(";,)]}", code_[at])) {
      const size_t angles = code_.behind_angles(at);
      const bool are_types = angles > at && code_[angles - 1] == ">" && is_one_of("(.:", code_[angles]);
      at = are_types ? angles : opens(code_[at]) ? code_.closing(at) + 1 : at + 1;
    }
    return at;
  }

  // `{v}` is v to Slang; a list of more is a new value.
  void copy(size_t begin, size_t end) {
    if (code_[begin] == "{") {
      if (value_end(begin + 1) + 1 == end) copy(begin + 1, end - 1);
    } else if (may_be_variable(begin, end)) {
      code_.insert(begin, "tsl_copy(");
      code_.insert_behind(end - 1, ")");
    }
  }

  // Whether the value names a variable, and is not one that has no parts or `float2(x, y)`. Slang takes `v + 0` for v too.
  bool may_be_variable(size_t begin, size_t end) const {
    if (code_[begin] == "no_diff") return false;
    const bool is_made = is_float_type(code_[begin]) && code_[begin + 1] == "(" && code_.closing(begin + 1) + 1 == end;
    if (is_made && code_[value_end(begin + 2)] == ",") return false;
    if (const auto declared = declaration_of(begin); declared && begin + 1 == end && has_no_parts(*declared)) return false;
    for (size_t at = begin; at < end; ++at) {
      const bool is_variable = code_.is_name(at) && !code_.is_member(at) && code_[at + 1] != "(";
      if (is_variable && !is_among(kLiterals, code_[at])) return true;
    }
    return false;
  }

  // `p = tsl_copy(p);` of those that the function changes.
  void renew_parameters() {
    for (const size_t begin : parameter_begins(code_, head_.open)) {
      const size_t name = parameter_name(code_, begin, head_.close);
      bool is_own = name > begin && !has_no_parts(name) && code_[begin] != "let";
      for (size_t at = begin; at < name; ++at) is_own = is_own && !is_out(code_[at]);
      if (!is_own || !changes_part_of({name, 0})) continue;
      const std::string text(code_[name]);
      code_.insert_behind(head_.body, " " + text + " = tsl_copy(" + text + ");");
    }
  }

  SourceCode& code_;
  const FunctionHead& head_;
  const ChangingFunctions& changing_;
  const bool is_inlined_;
  std::vector<Loop> loops_;
};

}  // namespace

void write_copies(SourceCode& code, const ChangingFunctions& changing) {
  for (const FunctionHead& head : function_heads(code)) {
    if (head.is_differentiable()) Function(code, head, changing).write();
  }
}

}  // namespace torch_slang
