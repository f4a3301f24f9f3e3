#include "compiler/emit/emitted_code.h"

#include <algorithm>
#include <map>

namespace torch_slang {
namespace {

constexpr std::string_view kElement = "_slang_vector_get_element_ptr";  // of a vector, by index: no call

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

class EmittedReader {
 public:
  explicit EmittedReader(const EmittedCode& code) : code_(code) {}

  void read(std::vector<EmittedFunction>& functions, std::vector<EmittedStruct>& structs) {
    for (size_t at = 0, start = 0; at < code_.size();) {
      if (code_[at] == "{") {
        const size_t close = code_.closing(at, code_.size());
        if (at > start && code_[at - 1] == ")") functions.push_back(function(start, at));
        if (code_[start] == "struct") structs.push_back(structure(at, close));
        at = start = close + 1;
      } else {
        if (code_[at] == ";") start = at + 1;
        ++at;
      }
    }
  }

 private:
  EmittedStruct structure(size_t open, size_t close) const {
    EmittedStruct found{code_[open - 1], {}, close};
    for (size_t at = open + 1, begin = at; at < close; ++at) {
      if (code_[at] != ";") continue;
      if (code_.is_name(at - 1)) found.fields.push_back({code_[at - 1], code_[at - 2] == "*", {begin, at - 1}});
      begin = at + 1;
    }
    return found;
  }

  // `__device__ T name(parameters) {`
  EmittedFunction function(size_t start, size_t brace) const {
    EmittedFunction found;
    size_t open = start;
    while (open < brace && code_[open] != "(") ++open;
    found.name = open > start ? code_[open - 1] : std::string_view();
    add_parameters({open + 1, brace - 1}, found);
    found.body = block(brace, code_.closing(brace, code_.size()) + 1);
    return found;
  }

  void add_parameters(Span list, EmittedFunction& found) const {
    size_t begin = list.begin;
    int depth = 0;
    for (size_t at = list.begin; at <= list.end; ++at) {
      if (at == list.end || (depth == 0 && code_[at] == ",")) {
        if (at > begin) found.parameters.push_back({code_[begin], code_[at - 1], {begin, at - 1}});
        begin = at + 1;
      } else if (opens(code_[at]) || code_[at] == "<") {
        ++depth;
      } else if (closes(code_[at]) || code_[at] == ">") {
        --depth;
      }
    }
  }

  EmittedStatement block(size_t open, size_t end) const {
    EmittedStatement found{EmittedStatement::Kind::Block, {open, end}, {}, {}};
    for (size_t at = open + 1; at + 1 < end;) {
      found.parts.push_back(statement(at, end - 1));
      at = std::max(found.parts.back().span.end, at + 1);
    }
    return found;
  }

  EmittedStatement statement(size_t at, size_t end) const {
    const std::string_view word = code_[at];
    if (word == "{") return block(at, std::min(code_.closing(at, end) + 1, end));
    if (word == "if") return branch(at, end);
    if (word == "for" || word == "while") return headed(EmittedStatement::Kind::Loop, at, end);
    if (word == "switch") return headed(EmittedStatement::Kind::Switch, at, end);
    if (word == "do") return do_loop(at, end);
    const bool label = word == "case" || word == "default";
    size_t last = at;
    while (last < end && code_[last] != (label ? ":" : ";")) {
      last = opens(code_[last]) ? std::min(code_.closing(last, end), end - 1) + 1 : last + 1;
    }
    return {EmittedStatement::Kind::Simple, {at, std::min(last + 1, end)}, {}, {}};
  }

  EmittedStatement headed(EmittedStatement::Kind kind, size_t at, size_t end) const {
    const size_t close = code_.closing(at + 1, end);
    EmittedStatement found{kind, {at, end}, {at + 2, close}, {}};
    found.parts.push_back(statement(close + 1, end));
    found.span.end = found.parts.back().span.end;
    return found;
  }

  EmittedStatement branch(size_t at, size_t end) const {
    EmittedStatement found = headed(EmittedStatement::Kind::If, at, end);
    if (found.span.end < end && code_[found.span.end] == "else") {
      found.parts.push_back(statement(found.span.end + 1, end));
      found.span.end = found.parts.back().span.end;
    }
    return found;
  }

  EmittedStatement do_loop(size_t at, size_t end) const {
    EmittedStatement found{EmittedStatement::Kind::Loop, {at, end}, {}, {statement(at + 1, end)}};
    const size_t open = found.parts.back().span.end + 1;  // behind `while`
    const size_t close = code_.closing(open, end);
    found.head = {open + 1, close};
    found.span.end = std::min(close + 2, end);
    return found;
  }

  const EmittedCode& code_;
};

// Reads the left side of `=`. Addresses and what they point to cancel out in this text, so `&` and `*` say nothing.
class PlaceReader {
 public:
  PlaceReader(const EmittedCode& code, Span span) : code_(code), at_(span.begin), end_(span.end) {}

  std::optional<Place> all() {
    auto place = sum();
    return at_ == end_ ? place : std::nullopt;
  }

 private:
  bool take(std::string_view text) {
    if (at_ >= end_ || code_[at_] != text) return false;
    ++at_;
    return true;
  }

  // `matrix->rows + (index)` is a row.
  std::optional<Place> sum() {
    auto place = term();
    while (place && at_rows_ && take("+")) {
      const size_t begin = at_;
      while (at_ < end_ && code_[at_] != ")" && code_[at_] != ",") {
        at_ = opens(code_[at_]) ? std::min(code_.closing(at_, end_), end_ - 1) + 1 : at_ + 1;
      }
      place->steps.push_back(index({begin, at_}));
      at_rows_ = false;
    }
    return place;
  }

  std::optional<Place> term() {
    at_rows_ = false;
    while (take("*") || take("&")) {
    }
    std::optional<Place> place;
    if (at_ < end_ && code_[at_] == kElement) {
      place = element_pointer();
    } else if (take("(")) {
      place = sum();
      if (!take(")")) return std::nullopt;
    } else if (code_.is_name(at_) && at_ < end_) {
      place = Place{std::string(code_[at_++]), {}};
    }
    while (place && at_ < end_) {
      if (code_[at_] == "[") {
        const size_t close = code_.closing(at_, end_);
        place->steps.push_back(index({at_ + 1, close}));
        at_ = close + 1;
        at_rows_ = false;
      } else if (take(".") || (code_[at_] == "-" && code_[at_ + 1] == ">" && (at_ += 2))) {
        if (at_ >= end_ || !code_.is_name(at_)) return std::nullopt;
        add_member(code_[at_++], *place);
      } else {
        break;
      }
    }
    return place;
  }

  // `_slang_vector_get_element_ptr(&vector, index)`
  std::optional<Place> element_pointer() {
    const size_t close = code_.closing(at_ + 1, end_);
    at_ += 2;
    auto place = sum();
    if (!place || !take(",")) return std::nullopt;
    place->steps.push_back(index({at_, close}));
    at_ = close + 1;
    return place;
  }

  // Fields of structs end in a number that Slang adds, so these are not among them.
  void add_member(std::string_view name, Place& place) {
    static const std::map<std::string_view, std::string_view> kComponents = {
        {"x", "0"}, {"y", "1"}, {"z", "2"}, {"w", "3"}};
    at_rows_ = name == "rows";
    if (at_rows_) return;  // the index follows
    const auto component = kComponents.find(name);
    place.steps.push_back({std::string(component == kComponents.end() ? name : component->second), true});
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

  const EmittedCode& code_;
  size_t at_, end_;
  bool at_rows_ = false;
};

// The `=` of an assignment, or the end.
size_t assigning(const EmittedCode& code, Span span) {
  for (size_t at = span.begin; at < span.end; ++at) {
    if (opens(code[at])) {
      at = code.closing(at, span.end);
    } else if (code[at] == "=" && !(code.is_joined(at) && code[at + 1] == "=") &&
               !(at > span.begin && code[at - 1] == "=" && code.is_joined(at - 1))) {
      return at;
    }
  }
  return span.end;
}

bool ends_operator(const EmittedCode& code, size_t equals) {
  constexpr std::string_view kOperators = "+-*/%&|^<>!";
  return equals > 0 && code.is_joined(equals - 1) && kOperators.find(code[equals - 1]) != std::string_view::npos;
}

// `T name`, where T may have arguments.
bool declares(const EmittedCode& code, Span left) {
  if (left.size() < 2 || !code.is_name(left.begin) || !code.is_name(left.end - 1)) return false;
  if (code[left.begin] == "return") return false;
  const std::string_view before = code[left.end - 2];
  return before == ">" ? code[left.end - 3] != "-" : code.is_name(left.end - 2);
}

}  // namespace

EmittedCode::EmittedCode(std::string text, Differentials differentials)
    : text_(std::move(text)), differentials_(differentials), tokens_(split_tokens(text_)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (is_code(tokens_[i])) places_.push_back(i);
  }
  EmittedReader(*this).read(functions_, structs_);
}

std::string EmittedCode::text_without_spaces(Span span) const {
  std::string text;
  for (size_t at = span.begin; at < span.end; ++at) {
    if (at > span.begin && is_name(at) && is_name(at - 1)) text += ' ';
    text += (*this)[at];
  }
  return text;
}

// An address is an argument where a comma or the call's bracket stands before it. `&x->field` of a pointer is the caller's.
std::vector<std::string> EmittedCode::handed_on(Span span) const {
  std::vector<std::string> found;
  for (size_t at = span.begin + 1; at + 2 < span.end; ++at) {
    const std::string_view before = (*this)[at - 1];
    if ((*this)[at] != "&" || !is_name(at + 1)) continue;
    const bool of_call =
        before == "," || (before == "(" && at >= span.begin + 2 && is_name(at - 2) && (*this)[at - 2] != kElement);
    if (of_call) found.emplace_back((*this)[at + 1]);
  }
  return found;
}

size_t EmittedCode::closing(size_t open, size_t end) const {
  int depth = 0;
  for (size_t at = open; at < end; ++at) {
    if (opens((*this)[at])) ++depth;
    if (closes((*this)[at]) && --depth == 0) return at;
  }
  return end;
}

size_t EmittedCode::closing_angle(size_t open, size_t end) const {
  int depth = 0;
  for (size_t at = open; at < end; ++at) {
    depth += (*this)[at] == "<" ? 1 : (*this)[at] == ">" ? -1 : 0;
    if (depth == 0) return at;
  }
  return end;
}

std::string EmittedCode::said_place(size_t at) const {
  constexpr std::string_view kLine = "#line ";
  std::string_view line;
  for (size_t i = places_[at]; i-- > 0;) {
    if (tokens_[i].kind != TokenKind::Directive || !tokens_[i].text.starts_with(kLine)) continue;
    const std::string_view rest = tokens_[i].text.substr(kLine.size());
    if (line.empty()) line = rest.substr(0, rest.find(' '));
    const size_t quote = rest.find('"');
    if (quote == std::string_view::npos) continue;  // of the file that an earlier one names
    return std::string(rest.substr(quote + 1, rest.rfind('"') - quote - 1)) + ":" + std::string(line);
  }
  return {};
}

void EmittedCode::replace(Span span, std::string text) {
  edits_.push_back({places_[span.begin], span, std::move(text)});
}

void EmittedCode::insert(size_t before, const std::string& text) { replace({before, before}, text); }

void EmittedCode::insert_behind(size_t at, const std::string& text) {
  edits_.push_back({places_[at] + 1, {at, at}, text});
}

std::string EmittedCode::edited() const {
  std::vector<Edit> edits = edits_;
  // Insertions before the replacements there.
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return a.at != b.at ? a.at < b.at : a.span.size() == 0 && b.span.size() > 0;
  });
  std::string text;
  size_t token = 0;
  for (const Edit& edit : edits) {
    for (; token < edit.at; ++token) text += tokens_[token].text;
    text += edit.text;
    for (; edit.span.size() > 0 && token <= places_[edit.span.end - 1]; ++token) {
      if (tokens_[token].kind == TokenKind::Directive) text += "\n" + std::string(tokens_[token].text) + "\n";
    }
  }
  for (; token < tokens_.size(); ++token) text += tokens_[token].text;
  return text;
}

bool may_overlap(const std::vector<Step>& a, const std::vector<Step>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].literal && b[i].literal && a[i].text != b[i].text) return false;
  }
  return true;
}

std::optional<Place> place_of(const EmittedCode& code, Span expression) { return PlaceReader(code, expression).all(); }

std::optional<Assignment> assignment(const EmittedCode& code, const EmittedStatement& statement) {
  Span span = statement.span;
  if (statement.kind != EmittedStatement::Kind::Simple || span.size() < 2 || code[span.end - 1] != ";")
    return std::nullopt;
  --span.end;
  const size_t equals = assigning(code, span);
  const Span left{span.begin, equals};
  Assignment found;
  found.value = {std::min(equals + 1, span.end), span.end};
  if (declares(code, left)) {
    found.kind = Assignment::Kind::Declare;
    found.place.variable = code[left.end - 1];
    return found;
  }
  if (equals == span.end) return std::nullopt;
  if (ends_operator(code, equals)) return found;
  if (left.size() == 1 && code.is_name(left.begin)) {
    found.kind = Assignment::Kind::Whole;
    found.place.variable = code[left.begin];
    return found;
  }
  const bool through = code[left.begin] == "*" && code.is_name(left.begin + 1) && left.size() == 2;
  auto place = through ? std::nullopt : place_of(code, left);
  if (place && !place->steps.empty()) {
    found.kind = Assignment::Kind::Part;
    found.place = *std::move(place);
  }
  return found;
}

}  // namespace torch_slang
