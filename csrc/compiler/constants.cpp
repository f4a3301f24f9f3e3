#include "compiler/constants.h"

#include <c10/util/Half.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/identifiers.h"
#include "compiler/tokens.h"

namespace torch_slang {
namespace {

using Kind = Constant::Kind;
using Value = std::optional<Constant>;

constexpr int kMostLevels = 30;  // of brackets and of constants that name others

struct WholeType {
  std::string_view name;
  int bits;
  bool is_signed;
};
constexpr WholeType kWholeTypes[] = {{"int", 32, true},     {"int8_t", 8, true},     {"int16_t", 16, true},
                                     {"int32_t", 32, true}, {"int64_t", 64, true},   {"uint", 32, false},
                                     {"uint8_t", 8, false}, {"uint16_t", 16, false}, {"uint32_t", 32, false}};

Value to_whole(const WholeType& type, const Constant& value) {
  const double least = type.is_signed ? -std::ldexp(1.0, type.bits - 1) : 0.0;
  const double beyond = std::ldexp(1.0, type.is_signed ? type.bits - 1 : type.bits);
  const double whole = std::trunc(value.number);
  if (!(whole >= least && whole < beyond)) return std::nullopt;
  return Constant::of(value.kind == Kind::Whole ? value.whole : static_cast<int64_t>(whole));
}

Value converted(std::string_view type, const Constant& value) {
  if (type == "double") return Constant::of(Kind::Double, value.number);
  if (type == "float") return Constant::of(Kind::Single, value.number);
  if (type == "half")
    return Constant::of(Kind::Single, static_cast<float>(c10::Half(static_cast<float>(value.number))));
  for (const WholeType& one : kWholeTypes) {
    if (one.name == type) return to_whole(one, value);
  }
  return std::nullopt;
}

Value computed(char operation, const Constant& a, const Constant& b) {
  if (a.kind == Kind::Whole && b.kind == Kind::Whole) {
    int64_t whole = 0;
    switch (operation) {
      case '+': return __builtin_add_overflow(a.whole, b.whole, &whole) ? Value() : Constant::of(whole);
      case '-': return __builtin_sub_overflow(a.whole, b.whole, &whole) ? Value() : Constant::of(whole);
      case '*': return __builtin_mul_overflow(a.whole, b.whole, &whole) ? Value() : Constant::of(whole);
      default: break;
    }
    const bool overflows = a.whole == std::numeric_limits<int64_t>::min() && b.whole == -1;
    return b.whole == 0 || overflows ? Value() : Constant::of(a.whole / b.whole);
  }
  const Kind kind = a.kind == Kind::Double || b.kind == Kind::Double ? Kind::Double : Kind::Single;
  switch (operation) {
    case '+': return Constant::of(kind, a.number + b.number);
    case '-': return Constant::of(kind, a.number - b.number);
    case '*': return Constant::of(kind, a.number * b.number);
    default: return Constant::of(kind, a.number / b.number);
  }
}

// The expression that the one `const ... name = ...;` of the source gives it.
std::optional<std::string_view> definition(std::string_view source, std::string_view name) {
  std::vector<Token> code;
  for (const Token& token : split_tokens(source)) {
    if (is_code(token)) code.push_back(token);
  }
  std::optional<std::string_view> found;
  bool is_constant = false;
  for (size_t i = 0; i + 2 < code.size(); ++i) {
    const std::string_view text = code[i].text;
    if (text == ";" || text == "{" || text == "}") is_constant = false;
    if (text == "const") is_constant = true;
    if (!is_constant || text != name || code[i + 1].text != "=") continue;
    if (found) return std::nullopt;
    const char* begin = code[i + 2].text.data();
    while (i < code.size() && code[i].text != ";") ++i;
    if (i == code.size()) return std::nullopt;
    found = std::string_view(begin, static_cast<size_t>(code[i].text.data() - begin));
    is_constant = false;
  }
  return found;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view source, int level) : text_(text), source_(source), level_(level) {}

  Value all() {
    Value value = sum();
    return at_end() ? value : std::nullopt;
  }

 private:
  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ == text_.size();
  }
  char next() { return at_end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    next();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Value sum() {
    Value value = product();
    while (value && (next() == '+' || next() == '-')) {
      const char operation = text_[at_++];
      value = applied(*value, operation, product());
    }
    return value;
  }
  Value product() {
    Value value = factor();
    while (value && (next() == '*' || next() == '/')) {
      const char operation = text_[at_++];
      value = applied(*value, operation, factor());
    }
    return value;
  }
  static Value applied(const Constant& a, char operation, const Value& b) {
    return b ? computed(operation, a, *b) : std::nullopt;
  }

  Value factor() {
    if (++level_ > kMostLevels) return std::nullopt;
    Value value = signed_or_bare();
    --level_;
    return value;
  }
  Value signed_or_bare() {
    if (take('+')) return factor();
    if (take('-')) {
      const Value value = factor();
      return value ? computed('-', value->kind == Kind::Whole ? Constant::of(0) : Constant::of(Kind::Single, -0.0),
                              *value)
                   : std::nullopt;
    }
    if (take('(')) return in_brackets();
    if (take('{')) return take('}') ? Value(Constant::of(0)) : std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(next())) != 0 || next() == '.') return literal();
    return named(word());
  }

  // `(e)` or `(T) e`, behind the `(`.
  Value in_brackets() {
    const size_t begin = at_;
    const std::string_view type = word();
    if (take(')') && converted(type, Constant::of(0))) {
      const Value value = factor();
      return value ? converted(type, *value) : std::nullopt;
    }
    at_ = begin;
    const Value value = sum();
    return take(')') ? value : std::nullopt;
  }

  Value named(std::string_view name) {
    if (name.empty()) return std::nullopt;
    if (name == "__realCast" || name == "__intCast") {
      if (!take('<')) return std::nullopt;
      const std::string_view type = word();
      return take('>') && take('(') ? call(type) : std::nullopt;
    }
    if (take('(')) return call(name);
    const auto expression = definition(source_, name);
    return expression ? Reader(*expression, source_, level_).all() : std::nullopt;
  }
  Value call(std::string_view type) {
    const Value value = sum();
    return value && take(')') ? converted(type, *value) : std::nullopt;
  }

  Value literal() {
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    const bool is_hex = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
    int64_t whole = 0;
    double number = 0;
    const auto read_whole = std::from_chars(is_hex ? begin + 2 : begin, end, whole, is_hex ? 16 : 10);
    auto stop = read_whole.ptr;
    const auto read_number = std::from_chars(begin, end, number);
    const bool has_fraction = !is_hex && read_number.ec == std::errc() && read_number.ptr != stop;
    if (has_fraction) stop = read_number.ptr;
    if (!has_fraction && read_whole.ec != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(stop - text_.data());
    std::string suffix(word());
    for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (suffix == "l" && has_fraction) suffix = "lf";
    if (suffix == "lf") return Constant::of(Kind::Double, has_fraction ? number : static_cast<double>(whole));
    if (suffix == "f" || (suffix.empty() && has_fraction))
      return Constant::of(Kind::Single, has_fraction ? number : static_cast<double>(whole));
    if (has_fraction || suffix.find_first_not_of("ulz") != std::string::npos) return std::nullopt;
    return Constant::of(whole);
  }

  const std::string_view text_, source_;
  size_t at_ = 0;
  int level_;
};

}  // namespace

std::optional<Constant> constant_of(std::string_view expression, std::string_view source) {
  const Value value = Reader(expression, source, 0).all();
  return value && std::isfinite(value->number) ? value : std::nullopt;
}

}  // namespace torch_slang
