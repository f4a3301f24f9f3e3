#include "compiler/ctext/lvalues.h"

#include <algorithm>
#include <map>

namespace torch_slang {
namespace {

// Reads the left side of `=`. Addresses and what they point to cancel out in this text, so `&` and `*` say nothing.
class LValueReader {
 public:
  LValueReader(const Code& code, Span span) : code_(code), at_(span.begin), end_(span.end) {}

  std::optional<LValue> all() {
    auto lvalue = sum();
    return at_ == end_ ? lvalue : std::nullopt;
  }

 private:
  bool take(std::string_view text) {
    if (at_ >= end_ || code_[at_] != text) return false;
    ++at_;
    return true;
  }

  // `matrix->rows + (index)` is a row.
  std::optional<LValue> sum() {
    auto lvalue = term();
    while (lvalue && at_rows_ && take("+")) {
      const size_t begin = at_;
      while (at_ < end_ && code_[at_] != ")" && code_[at_] != ",") {
        at_ = opens(code_[at_]) ? std::min(code_.closing(at_, end_), end_ - 1) + 1 : at_ + 1;
      }
      lvalue->steps.push_back(index({begin, at_}));
      at_rows_ = false;
    }
    return lvalue;
  }

  std::optional<LValue> term() {
    at_rows_ = false;
    while (take("*") || take("&")) {
    }
    std::optional<LValue> lvalue;
    if (at_ < end_ && code_[at_] == kElement) {
      lvalue = element_pointer();
    } else if (take("(")) {
      lvalue = sum();
      if (!take(")")) return std::nullopt;
    } else if (code_.is_name(at_) && at_ < end_) {
      lvalue = LValue{std::string(code_[at_++]), {}};
    }
    while (lvalue && at_ < end_) {
      if (code_[at_] == "[") {
        const size_t close = code_.closing(at_, end_);
        lvalue->steps.push_back(index({at_ + 1, close}));
        at_ = close + 1;
        at_rows_ = false;
      } else if (take(".") || (code_[at_] == "-" && code_[at_ + 1] == ">" && (at_ += 2))) {
        if (at_ >= end_ || !code_.is_name(at_)) return std::nullopt;
        add_member(code_[at_++], *lvalue);
      } else {
        break;
      }
    }
    return lvalue;
  }

  // `_slang_vector_get_element_ptr(&vector, index)`
  std::optional<LValue> element_pointer() {
    const size_t close = code_.closing(at_ + 1, end_);
    at_ += 2;
    auto lvalue = sum();
    if (!lvalue || !take(",")) return std::nullopt;
    lvalue->steps.push_back(index({at_, close}));
    at_ = close + 1;
    return lvalue;
  }

  // Fields of structs end in a number that Slang adds, so these are not among them.
  void add_member(std::string_view name, LValue& lvalue) {
    static const std::map<std::string_view, std::string_view> kComponents = {
        {"x", "0"}, {"y", "1"}, {"z", "2"}, {"w", "3"}};
    at_rows_ = name == "rows";
    if (at_rows_) return;  // the index follows
    const auto component = kComponents.find(name);
    lvalue.steps.push_back({std::string(component == kComponents.end() ? name : component->second), true});
  }

  // Of `int(1)`, `1U` and the like the number alone.
  Step index(Span span) const {
    for (;;) {
      if (span.size() >= 2 && code_[span.begin] == "(" && code_.closing(span.begin, span.end) + 1 == span.end) {
        span = {span.begin + 1, span.end - 1};
      } else if (span.size() >= 4 && is_cast(code_[span.begin]) && code_[span.begin + 1] == "(" &&
                 code_.closing(span.begin + 1, span.end) + 1 == span.end) {
        span = {span.begin + 2, span.end - 1};
      } else {
        break;
      }
    }
    if (span.size() == 1 && code_.is_number(span.begin)) {
      const std::string_view number = code_[span.begin];
      const size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
      if (number.find_first_not_of("uUlL", digits) == std::string_view::npos)
        return {std::string(number.substr(0, digits)), true};
    }
    return {code_.text_without_spaces(span), false};
  }

  static bool is_cast(std::string_view word) {
    return word == "int" || word == "uint" || word == "int64_t" || word == "uint64_t";
  }

  const Code& code_;
  size_t at_, end_;
  bool at_rows_ = false;
};

}  // namespace

bool may_overlap(const std::vector<Step>& a, const std::vector<Step>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].literal && b[i].literal && a[i].text != b[i].text) return false;
  }
  return true;
}

std::optional<LValue> lvalue_of(const Code& code, Span expression) { return LValueReader(code, expression).all(); }

std::optional<Assignment> read_assignment(const Code& code, const EmittedStatement& statement) {
  if (!statement.assigned) return std::nullopt;
  const EmittedAssignment& read = *statement.assigned;
  const Span left = read.left;
  Assignment found;
  found.value = read.value;
  const bool is_variable = code.is_name(left.end - 1) && code[left.end - 2] != "*" && code[left.end - 2] != "&";
  if (read.declares && is_variable) {
    found.kind = Assignment::Kind::Declare;
    found.left.variable = code[left.end - 1];
    return found;
  }
  if (read.operator_size == 0) return std::nullopt;
  if (read.operator_size > 1 || read.declares) return found;
  if (left.size() == 1) {
    found.kind = Assignment::Kind::Whole;
    found.left.variable = code[left.begin];
    return found;
  }
  const bool through = code[left.begin] == "*" && code.is_name(left.begin + 1) && left.size() == 2;
  auto lvalue = through ? std::nullopt : lvalue_of(code, left);
  if (lvalue && !lvalue->steps.empty()) {
    found.kind = Assignment::Kind::Part;
    found.left = *std::move(lvalue);
  }
  return found;
}

}  // namespace torch_slang
