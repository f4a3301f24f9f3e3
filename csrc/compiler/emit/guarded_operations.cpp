#include "compiler/emit/guarded_operations.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "common/identifiers.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr std::string_view kFloats[] = {"float", "double", "__half", "__nv_bfloat16"};

// `float`, `float3`.
bool is_of_floats(std::string_view type) {
  const std::string_view scalar =
      type.size() > 1 && type.back() >= '1' && type.back() <= '4' ? type.substr(0, type.size() - 1) : type;
  return std::find(std::begin(kFloats), std::end(kFloats), scalar) != std::end(kFloats);
}

bool is_float_literal(const Token& token) {
  return token.kind == TokenKind::Number && token.text.find('.') != std::string_view::npos;
}

bool is_zero(std::string_view literal) { return literal.find_first_of("123456789") == std::string_view::npos; }

class GuardedOperations {
 public:
  explicit GuardedOperations(const std::string& body) : tokens_(split_tokens(body)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
    for (size_t i = 0; i + 1 < code_.size(); ++i) {
      if (is_of_floats(at(i)) && is_name(i + 1)) floats_.insert(at(i + 1));
    }
  }

  int count() const { return count_; }
  std::string all() {
    size_t next = 0;  // token
    for (size_t i = 0; i < code_.size(); ++i) {
      for (; next < code_[i]; ++next) text_ += tokens_[next].text;
      ++next;
      take(i);
    }
    for (; next < tokens_.size(); ++next) text_ += tokens_[next].text;
    return std::move(text_);
  }

 private:
  std::string_view at(size_t i) const { return i < code_.size() ? tokens_[code_[i]].text : std::string_view(); }
  TokenKind code_kind(size_t i) const { return i < code_.size() ? tokens_[code_[i]].kind : TokenKind::Space; }
  bool is_name(size_t i) const { return i < code_.size() && tokens_[code_[i]].kind == TokenKind::Identifier; }

  void take(size_t i) {
    const std::string_view text = at(i);
    if (text == "/" || text == "%") {
      const bool is_guarded = is_guarded_division(i);
      count_ += is_guarded;
      text_ += !is_guarded ? text : text == "/" ? "TSL_DIVIDE" : "TSL_REMAINDER";
    } else if (text == "sizes" || text == "strides") {
      const bool is_read = at(i + 1) == "[" && (at(i - 1) == "." || at(i - 1) == ">");
      text_ += text;
      count_ += is_read;
      if (is_read) text_.replace(text_.size() - 1, 1, "_of");
    } else if (text == "[") {
      open_index(i);
    } else if (text == "(") {
      const bool is_row = i > 1 && at(i - 1) == "+" && at(i - 2) == "rows" && !is_literal(i + 1);
      count_ += is_row;
      open(is_row ? "(TSL_INDEX(" : "(", is_row ? "))" : ")");
    } else if ((text == "]" || text == ")") && !closing_.empty()) {
      text_ += closing_.back();
      closing_.pop_back();
    } else {
      text_ += text;
    }
  }

  void open(std::string_view here, std::string_view at_end) {
    text_ += here;
    closing_.push_back(at_end);
  }

  void open_index(size_t i) {
    if (at(i - 1) == "sizes" || at(i - 1) == "strides") {
      if (text_.ends_with("_of")) return open("(", ")");
      return open("[", "]");
    }
    const bool is_guarded = is_subscript(i) && !is_number(i + 1) && !is_loop_state(i);
    count_ += is_guarded;
    open(is_guarded ? "[TSL_INDEX(" : "[", is_guarded ? ")]" : "]");
  }

  // Not a lambda's captures, nor the name of an operator.
  bool is_subscript(size_t i) const {
    if (i == 0) return false;
    const std::string_view before = at(i - 1);
    if (is_name(i - 1)) return before != "return" && before != "operator" && before != "delete";
    return before == ")" || before == "]";
  }

  // `[4]`, as C++ of the user's own may declare an array, and Slang's `[int(4)]` and `[4U]`, which it has compared itself with
  // the array's length: a check of these, which are most indices, would cost compilers time for nothing.
  bool is_number(size_t i) const {
    return (at(i + 1) == "]" && code_kind(i) == TokenKind::Number) || (is_literal(i) && at(i + 4) == "]");
  }

  // `int(3)`
  bool is_literal(size_t i) const {
    return is_name(i) && !is_numbered(at(i)) && !at(i).starts_with("make_") && at(i + 1) == "(" && at(i + 3) == ")" &&
           at(i + 2).find_first_not_of("0123456789") == std::string_view::npos;
  }

  // `->value0_1[_pc_0]`
  bool is_loop_state(size_t i) const {
    return i > 1 && (at(i + 1).starts_with("_pc_") || at(i + 1).starts_with("_dc_")) && at(i + 2) == "]" &&
           (at(i - 1) == "]" || (at(i - 1).starts_with("value") && at(i - 2) == ">"));
  }

  bool is_guarded_division(size_t i) const {
    if (i == 0 || at(i + 1) == "=" || at(i - 1) == "operator") return false;
    if (is_float_literal(tokens_[code_[i - 1]])) return false;
    if (i + 1 >= code_.size()) return false;
    const Token& divisor = tokens_[code_[i + 1]];
    if (divisor.kind == TokenKind::Number) return !is_float_literal(divisor) && is_zero(divisor.text);
    if (is_literal(i + 1)) return is_zero(at(i + 3));
    return floats_.count(divisor.text) == 0 && !is_of_floats(divisor.text);
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // which of them are code
  std::set<std::string_view> floats_;  // names declared as floats, vectors or functions of them
  std::vector<std::string_view> closing_;  // what the open brackets become at their ends
  std::string text_;
  int count_ = 0;
};

}  // namespace

int guard_operations(std::string& body) {
  GuardedOperations operations(body);
  body = operations.all();
  return operations.count();
}

}  // namespace torch_slang
