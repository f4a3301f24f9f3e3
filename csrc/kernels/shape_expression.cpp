#include "kernels/shape_expression.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace torch_slang {

Expression Expression::of_constant(int64_t value) {
  Expression e;
  e.constant = value;
  return e;
}

Expression Expression::of_symbol(int index) {
  Expression e;
  e.kind = Kind::Symbol;
  e.symbol = index;
  return e;
}

bool Expression::operator==(const Expression& other) const {
  return kind == other.kind && constant == other.constant && symbol == other.symbol && operands == other.operands;
}

namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Expressions are walked by recursion, here and where they are evaluated: no deeper than any stack allows.
constexpr int kMostOperators = 1000;
constexpr int kMostNested = 200;
// Recursive descent: sum -> product -> unary -> atom.
class Parser {
 public:
  Parser(const std::string& text, const std::string& origin, const NameLookup& lookup)
      : text_(text), origin_(origin), lookup_(lookup) {}

  Expression parse() {
    Expression e = sum();
    expect(at_end(), "an operator");
    return e;
  }

 private:
  Expression sum() {
    Expression left = product();
    while (true) {
      if (accept('+')) {
        left = combine(Expression::Kind::Add, {std::move(left), product()});
      } else if (accept('-')) {
        left = combine(Expression::Kind::Subtract, {std::move(left), product()});
      } else {
        return left;
      }
    }
  }

  Expression product() {
    Expression left = unary();
    while (true) {
      if (accept('*')) {
        left = combine(Expression::Kind::Multiply, {std::move(left), unary()});
      } else if (accept('/')) {
        accept('/');  // Python's spelling of the same division
        left = combine(Expression::Kind::Divide, {std::move(left), unary()});
      } else if (accept('%')) {
        left = combine(Expression::Kind::Modulo, {std::move(left), unary()});
      } else {
        return left;
      }
    }
  }

  Expression unary() {
    TORCH_CHECK(++nested_ <= kMostNested, origin_, "more than ", kMostNested,
                " levels of parentheses and signs at character ", position_ + 1);
    Expression e = accept('-') ? combine(Expression::Kind::Negate, {unary()}) : atom();
    --nested_;
    return e;
  }

  Expression combine(Expression::Kind kind, std::vector<Expression> operands) {
    TORCH_CHECK(++operators_ <= kMostOperators, origin_, "more than ", kMostOperators, " operators");
    Expression e;
    e.kind = kind;
    e.operands = std::move(operands);
    return e;
  }

  Expression atom() {
    if (accept('(')) {
      Expression e = sum();
      expect(accept(')'), "')'");
      return e;
    }
    skip_space();
    if (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) return number();
    expect(position_ < text_.size() && starts_name(text_[position_]), "a number, a name or '('");
    const std::string name = identifier();
    if (!accept('(')) return lookup_(name);
    return call(name);
  }

  Expression number() {
    int64_t value = 0;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) {
      const int digit = text_[position_] - '0';
      TORCH_CHECK(value <= (std::numeric_limits<int64_t>::max() - digit) / 10, origin_, "number too large");
      value = value * 10 + digit;
      ++position_;
    }
    expect(position_ == text_.size() || !continues_name(text_[position_]), "a number");
    return Expression::of_constant(value);
  }

  Expression call(const std::string& name) {
    std::vector<Expression> operands;
    do {
      operands.push_back(sum());
    } while (accept(','));
    expect(accept(')'), "')'");
    TORCH_CHECK(name == "min" || name == "max" || name == "cdiv", origin_, "unknown function '", name,
                "' (known: min, max, cdiv)");
    TORCH_CHECK(operands.size() == 2 || (name != "cdiv" && operands.size() > 2), origin_, name, " takes ",
                name == "cdiv" ? "two arguments" : "at least two arguments", ", got ", operands.size());
    const auto kind = name == "min"   ? Expression::Kind::Min
                      : name == "max" ? Expression::Kind::Max
                                      : Expression::Kind::CeilDivide;
    Expression result = std::move(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) result = combine(kind, {std::move(result), std::move(operands[i])});
    return result;
  }

  std::string identifier() {
    const size_t begin = position_;
    while (position_ < text_.size() && continues_name(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  bool at_end() {
    skip_space();
    return position_ == text_.size();
  }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
  }

  void expect(bool condition, const char* what) {
    TORCH_CHECK(condition, origin_, "expected ", what, " at character ", position_ + 1);
  }

  const std::string& text_;
  const std::string& origin_;
  const NameLookup& lookup_;
  size_t position_ = 0;
  int nested_ = 0;
  int operators_ = 0;
};

using Kind = Expression::Kind;

constexpr bool divides(Kind kind) { return kind == Kind::Divide || kind == Kind::Modulo || kind == Kind::CeilDivide; }

// The quotient is known to fit.
int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

int64_t compute(Kind kind, int64_t a, int64_t b) {
  TORCH_CHECK(b != 0 || !divides(kind), "division by zero");
  int64_t result = 0;
  bool overflows = divides(kind) && a == std::numeric_limits<int64_t>::min() && (b == -1 || kind == Kind::CeilDivide);
  if (!overflows) {
    switch (kind) {
      case Kind::Add: overflows = __builtin_add_overflow(a, b, &result); break;
      case Kind::Subtract: overflows = __builtin_sub_overflow(a, b, &result); break;
      case Kind::Multiply: overflows = __builtin_mul_overflow(a, b, &result); break;
      case Kind::Min: result = std::min(a, b); break;
      case Kind::Max: result = std::max(a, b); break;
      case Kind::Divide: result = floor_divide(a, b); break;
      case Kind::Modulo: result = a - floor_divide(a, b) * b; break;
      case Kind::CeilDivide: result = -floor_divide(-a, b); break;
      default: TORCH_INTERNAL_ASSERT(false, "unknown expression");
    }
  }
  TORCH_CHECK(!overflows, "the result does not fit in 64 bits");
  return result;
}

// Sizes that are not symbolic are checked as for a real launch; symbolic division is floor division already.
c10::SymInt compute(Kind kind, const c10::SymInt& a, const c10::SymInt& b) {
  const auto concrete_a = a.maybe_as_int();
  const auto concrete_b = b.maybe_as_int();
  if (concrete_a && concrete_b) return c10::SymInt(compute(kind, *concrete_a, *concrete_b));
  if (divides(kind)) TORCH_CHECK(b.sym_ne(0).expect_true(__FILE__, __LINE__), "division by zero");
  switch (kind) {
    case Kind::Add: return a + b;
    case Kind::Subtract: return a - b;
    case Kind::Multiply: return a * b;
    case Kind::Min: return a.min(b);
    case Kind::Max: return a.max(b);
    case Kind::Divide: return a / b;
    case Kind::Modulo: return a - a / b * b;
    case Kind::CeilDivide: return c10::SymInt(0) - (c10::SymInt(0) - a) / b;
    default: TORCH_INTERNAL_ASSERT(false, "unknown expression");
  }
}

template <class Int>
Int evaluate_node(const Expression& e, c10::ArrayRef<Int> symbols) {
  if (e.kind == Kind::Constant) return Int(e.constant);
  if (e.kind == Kind::Symbol) return symbols[e.symbol];
  const Int a = evaluate_node(e.operands[0], symbols);
  if (e.kind == Kind::Negate) return compute(Kind::Subtract, Int(0), a);
  return compute(e.kind, a, evaluate_node(e.operands[1], symbols));
}

}  // namespace

std::string shortened(const std::string& text) {
  constexpr size_t kMostCharacters = 100;
  return text.size() <= kMostCharacters ? text : text.substr(0, kMostCharacters) + "...";
}

Expression parse_expression(const std::string& text, const std::string& where, const NameLookup& lookup) {
  const std::string origin = where + ": in \"" + shortened(text) + "\": ";
  Expression expression = Parser(text, origin, lookup).parse();
  expression.origin = origin;
  return expression;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  int depth = 0;
  std::string item;
  const auto finish = [&] {
    const size_t begin = item.find_first_not_of(" \t\n");
    const size_t end = item.find_last_not_of(" \t\n");
    items.push_back(begin == std::string::npos ? std::string() : item.substr(begin, end - begin + 1));
    item.clear();
  };
  for (const char c : text) {
    if (c == ',' && depth == 0) {
      finish();
      continue;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    item += c;
  }
  finish();
  if (items.size() == 1 && items[0].empty()) items.clear();
  return items;
}

bool is_name(const std::string& text) {
  return !text.empty() && starts_name(text[0]) && std::all_of(text.begin(), text.end(), continues_name);
}

template <class Int>
Int evaluate(const Expression& expression, c10::ArrayRef<Int> symbols) {
  try {
    return evaluate_node(expression, symbols);
  } catch (const c10::Error& e) {
    TORCH_CHECK(false, expression.origin, e.what_without_backtrace());
  }
}

template int64_t evaluate(const Expression&, c10::ArrayRef<int64_t>);
template c10::SymInt evaluate(const Expression&, c10::ArrayRef<c10::SymInt>);

}  // namespace torch_slang
