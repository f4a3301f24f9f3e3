#include "compiler/emit/guarded_operations.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

constexpr std::string_view kFloats[] = {"float", "double", "__half", "__nv_bfloat16"};

// `float`, `float3`.
bool is_of_floats(std::string_view type) {
  const std::string_view scalar =
      type.size() > 1 && type.back() >= '1' && type.back() <= '4' ? type.substr(0, type.size() - 1) : type;
  return std::find(std::begin(kFloats), std::end(kFloats), scalar) != std::end(kFloats);
}

bool is_zero(std::string_view literal) { return literal.find_first_of("123456789") == std::string_view::npos; }

class GuardedOperations {
 public:
  explicit GuardedOperations(Code& code) : code_(code) {
    for (size_t i = 0; i + 1 < code.size(); ++i) {
      if (is_of_floats(code[i]) && code.is_name(i + 1)) floats_.insert(code[i + 1]);
    }
  }

  int run() {
    for (size_t i = 0; i < code_.size(); ++i) guard(i);
    return count_;
  }

 private:
  void guard(size_t i) {
    const std::string_view text = code_[i];
    if (text == "/" || text == "%") {
      if (is_guarded_division(i)) replace(i, text == "/" ? "TSL_DIVIDE" : "TSL_REMAINDER");
    } else if (text == "[" && is_lengths(i - 1)) {
      if (code_[i - 2] == "." || code_[i - 2] == ">") read_by_function(i);
    } else if (text == "[") {
      if (is_subscript(i) && !is_number(i + 1) && !is_loop_state(i)) guard_index(i);
    } else if (text == "(") {
      if (i > 1 && code_[i - 1] == "+" && code_[i - 2] == "rows" && !is_literal(i + 1)) guard_index(i);
    }
  }

  void replace(size_t i, std::string text) {
    code_.replace({i, i + 1}, std::move(text));
    ++count_;
  }

  bool is_lengths(size_t i) const { return code_[i] == "sizes" || code_[i] == "strides"; }

  // `.sizes[index]` becomes `.size_of(index)`.
  void read_by_function(size_t open) {
    const std::string_view member = code_[open - 1];
    replace(open - 1, std::string(member.substr(0, member.size() - 1)) + "_of");
    code_.replace({open, open + 1}, "(");
    const size_t close = code_.closing(open, code_.size());
    code_.replace({close, close + 1}, ")");
  }

  void guard_index(size_t open) {
    code_.insert_behind(open, "TSL_INDEX(");
    code_.insert(code_.closing(open, code_.size()), ")");
    ++count_;
  }

  // Not a lambda's captures, nor the name of an operator.
  bool is_subscript(size_t i) const {
    if (i == 0) return false;
    const std::string_view before = code_[i - 1];
    if (code_.is_name(i - 1)) return before != "return" && before != "operator" && before != "delete";
    return before == ")" || before == "]";
  }

  // `[4]`, as C++ of the user's own may declare an array, and Slang's `[int(4)]` and `[4U]`, which it has compared itself with
  // the array's length: a check of these, which are most indices, would cost compilers time for nothing.
  bool is_number(size_t i) const {
    return (code_[i + 1] == "]" && code_.is_number(i)) || (is_literal(i) && code_[i + 4] == "]");
  }

  // `int(3)`
  bool is_literal(size_t i) const {
    return code_.is_name(i) && !is_numbered(code_[i]) && !code_[i].starts_with("make_") && code_[i + 1] == "(" &&
           code_[i + 3] == ")" && code_[i + 2].find_first_not_of("0123456789") == std::string_view::npos;
  }

  // `->value0_1[_pc_0]`
  bool is_loop_state(size_t i) const {
    return i > 1 && (code_[i + 1].starts_with("_pc_") || code_[i + 1].starts_with("_dc_")) && code_[i + 2] == "]" &&
           (code_[i - 1] == "]" || (code_[i - 1].starts_with("value") && code_[i - 2] == ">"));
  }

  bool is_float_literal(size_t i) const { return code_.is_number(i) && code_[i].find('.') != std::string_view::npos; }

  bool is_guarded_division(size_t i) const {
    if (i == 0 || code_[i + 1] == "=" || code_[i - 1] == "operator") return false;
    if (is_float_literal(i - 1)) return false;
    if (i + 1 >= code_.size()) return false;
    const std::string_view divisor = code_[i + 1];
    if (code_.is_number(i + 1)) return !is_float_literal(i + 1) && is_zero(divisor);
    if (is_literal(i + 1)) return is_zero(code_[i + 3]);
    return floats_.count(divisor) == 0 && !is_of_floats(divisor);
  }

  Code& code_;
  std::set<std::string_view> floats_;  // names declared as floats, vectors or functions of them
  int count_ = 0;
};

}  // namespace

int guard_operations(Code& code) { return GuardedOperations(code).run(); }

}  // namespace torch_slang
