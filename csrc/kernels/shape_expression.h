// Integer expressions of the shape language: `2 * N`, `cdiv(W, 16)`, `max(N, 1)`. Parsed once at load; evaluated with
// int64_t for a launch and with c10::SymInt for Meta and torch.compile, so that both share one definition.
#pragma once

#include <c10/core/SymInt.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace torch_slang {

struct Expression {
  enum class Kind : int8_t { Constant, Symbol, Negate, Add, Subtract, Multiply, Divide, Modulo, Min, Max, CeilDivide };
  Kind kind = Kind::Constant;
  int64_t constant = 0;
  int symbol = -1;  // index into the values given to evaluate
  std::vector<Expression> operands;
  std::string origin;  // of a whole expression: where it stands and its text, for messages

  static Expression of_constant(int64_t value);
  static Expression of_symbol(int index);
  bool operator==(const Expression& other) const;
};

// Gives the meaning of a name: a symbol or a constant.
using NameLookup = std::function<Expression(const std::string& name)>;

// Throws c10::Error that begins with `where`, quotes `text` and says the expected token and its position.
Expression parse_expression(const std::string& text, const std::string& where, const NameLookup& lookup);

std::string shortened(const std::string& text);  // as messages quote it

// Splits at commas outside parentheses and trims: "N, min(A, 8)" -> {"N", "min(A, 8)"}; "" -> {}.
std::vector<std::string> split_list(const std::string& text);

bool is_name(const std::string& text);

// Division and modulo round towards minus infinity, as in Python. A zero divisor throws, and what does not fit in 64 bits.
template <class Int>
Int evaluate(const Expression& expression, c10::ArrayRef<Int> symbols);
extern template int64_t evaluate(const Expression&, c10::ArrayRef<int64_t>);
extern template c10::SymInt evaluate(const Expression&, c10::ArrayRef<c10::SymInt>);

}  // namespace torch_slang
