#include "compiler/ctext/reader.h"

#include <algorithm>

#include "compiler/ctext/expressions.h"

namespace torch_slang {
namespace {

class Statements {
 public:
  Statements(const Code& code, std::optional<UnknownForm>& unknown)
      : code_(code), expressions_(code), unknown_(unknown) {}

  EmittedStatement block(size_t open, size_t end) const {
    EmittedStatement found{Kind::Block, {open, end}, {}};
    for (size_t at = open + 1; at + 1 < end; at = found.parts.back().span.end) {
      found.parts.push_back(statement(at, end - 1));
    }
    return found;
  }

 private:
  using Kind = EmittedStatement::Kind;

  EmittedStatement statement(size_t at, size_t end) const {
    const std::string_view word = code_[at];
    try {
      if (word == "{") return block(at, closing(at, end) + 1);
      if (word == "if") return branch(at, end);
      if (word == "for") return headed(Kind::For, at, end);
      if (word == "while") return headed(Kind::While, at, end);
      if (word == "switch") return headed(Kind::Switch, at, end);
      if (word == "do") return do_loop(at, end);
      return leaf(at);
    } catch (const UnknownForm& form) {
      if (!unknown_) unknown_ = form;
      return {Kind::Simple, {at, behind_unknown(at, end)}, {}};
    }
  }

  size_t closing(size_t open, size_t end) const {
    const size_t close = code_.closing(open, end);
    if (close == end) throw UnknownForm{open};
    return close;
  }

  size_t behind_unknown(size_t at, size_t end) const {
    const bool is_label = code_[at] == "case" || code_[at] == "default";
    while (at < end && code_[at] != (is_label ? ":" : ";")) {
      at = opens(code_[at]) ? std::min(code_.closing(at, end), end - 1) + 1 : at + 1;
    }
    return std::min(at + 1, end);
  }

  // What ends in `;`, and labels of cases.
  EmittedStatement leaf(size_t at) const {
    const std::string_view word = code_[at];
    if (word == "case") return ended(Kind::Case, at, expressions_.expression(at + 1), ":");
    if (word == "default") return ended(Kind::Case, at, at + 1, ":");
    if (word == "break") return ended(Kind::Break, at, at + 1, ";");
    if (word == "continue") return ended(Kind::Continue, at, at + 1, ";");
    if (word == "return")
      return ended(Kind::Return, at, code_[at + 1] == ";" ? at + 1 : expressions_.value(at + 1), ";");
    if (word == "asm" || word == "__asm__") return {Kind::Simple, {at, assembly(at)}, {}};
    if (word == ";") return {Kind::Simple, {at, at + 1}, {}};
    std::optional<EmittedAssignment> assigned;
    const size_t end = clause(at, assigned);
    return {Kind::Simple, {at, expressions_.expect(end, ";")}, {}, {}, assigned};
  }

  // A word, perhaps a value up to `end`, and what ends it.
  EmittedStatement ended(Kind kind, size_t at, size_t end, std::string_view by) const {
    return {kind, {at, expressions_.expect(end, by)}, {at + 1, end}};
  }

  // A declaration, an assignment or an expression, without `;`.
  size_t clause(size_t at, std::optional<EmittedAssignment>& assigned) const {
    if (const auto type = expressions_.type(at); type && expressions_.is_plain_name(*type)) {
      const size_t lengths = expressions_.lengths(*type + 1), end = expressions_.declarator(*type);
      assigned = {true, {at, lengths}, end > lengths ? 1u : 0u, {std::min(lengths + 1, end), end}};
      return end;
    }
    const size_t left = expressions_.expression(at), length = expressions_.assigning(left);
    if (length == 0) return left;
    const size_t end = expressions_.value(left + length);
    assigned = {false, {at, left}, length, {left + length, end}};
    return end;
  }
  size_t clause(size_t at) const {
    std::optional<EmittedAssignment> assigned;
    return clause(at, assigned);
  }

  // `asm volatile ("..." : ... );`
  size_t assembly(size_t at) const {
    ++at;
    if (code_[at] == "volatile" || code_[at] == "__volatile__") ++at;
    if (code_[at] != "(") throw UnknownForm{at};
    return expressions_.expect(closing(at, code_.size()) + 1, ";");
  }

  // `for (clause; condition; clause)`, `while (condition)`, `switch (selector)`
  EmittedStatement headed(Kind kind, size_t at, size_t end) const {
    expressions_.expect(at + 1, "(");
    const size_t close = closing(at + 1, end);
    const size_t read = code_[at] == "for" ? for_head(at + 2) : expressions_.expression(at + 2);
    if (read != close) throw UnknownForm{read};
    EmittedStatement found{kind, {at, end}, {at + 2, close}};
    found.parts.push_back(statement(close + 1, end));
    found.span.end = found.parts.back().span.end;
    return found;
  }

  size_t for_head(size_t at) const {
    at = expressions_.expect(code_[at] == ";" ? at : clause(at), ";");
    at = expressions_.expect(code_[at] == ";" ? at : expressions_.expression(at), ";");
    return code_[at] == ")" ? at : clause(at);
  }

  EmittedStatement branch(size_t at, size_t end) const {
    EmittedStatement found = headed(Kind::If, at, end);
    if (found.span.end < end && code_[found.span.end] == "else") {
      found.parts.push_back(statement(found.span.end + 1, end));
      found.span.end = found.parts.back().span.end;
    }
    return found;
  }

  EmittedStatement do_loop(size_t at, size_t end) const {
    EmittedStatement found{Kind::DoWhile, {at, end}, {}, {statement(at + 1, end)}};
    size_t open = expressions_.expect(found.parts.back().span.end, "while");
    found.head.begin = expressions_.expect(open, "(");
    found.head.end = expressions_.expression(found.head.begin);
    found.span.end = expressions_.expect(expressions_.expect(found.head.end, ")"), ";");
    return found;
  }

  const Code& code_;
  const Expressions expressions_;
  std::optional<UnknownForm>& unknown_;
};

// Structs, functions and variables at file scope, or of a struct.
class Declarations {
 public:
  explicit Declarations(const Code& code) : code_(code), expressions_(code) {}

  EmittedTree all() {
    for (size_t at = 0; at < code_.size();) {
      const size_t begin = at;
      try {
        at = declaration(at);
      } catch (const UnknownForm& form) {
        if (!tree_.unknown) tree_.unknown = form;
        at = behind_unknown(begin);
      }
    }
    return std::move(tree_);
  }

 private:
  size_t behind_unknown(size_t at) const {
    for (; at < code_.size(); ++at) {
      if (code_[at] == ";") return at + 1;
      if (code_[at] == "{") return std::min(code_.closing(at, code_.size()) + 1, code_.size());
    }
    return at;
  }

  size_t declaration(size_t at) {
    if (code_[at] == ";") return at + 1;
    if (code_[at] == "struct" && (code_[at + 2] == "{" || code_[at + 2] == ";")) return structure(at);
    const auto type = expressions_.type(template_head(at));
    if (!type || !expressions_.is_plain_name(*type)) throw UnknownForm{at};
    if (code_[*type + 1] == "(") return function(*type);
    return variable(*type);
  }

  // Behind `template <class T>`.
  size_t template_head(size_t at) const {
    return code_[at] == "template" ? code_.closing_angle(at + 1, code_.size()) + 1 : at;
  }

  size_t variable(size_t name) const { return expressions_.expect(expressions_.declarator(name), ";"); }

  // `struct name { fields and functions };`
  size_t structure(size_t at) {
    const size_t open = at + 2;
    if (code_[open] == ";") return open + 1;
    const size_t close = code_.closing(open, code_.size());
    EmittedStruct found{code_[at + 1], {}, at, close};
    for (size_t member = open + 1; member < close;) {
      const auto type = expressions_.type(member);
      const bool is_field = type && expressions_.is_plain_name(*type) && code_[*type + 1] != "(";
      if (is_field) found.fields.push_back({code_[*type], code_[*type - 1] == "*", {member, *type}});
      member = is_field ? variable(*type) : declaration(member);
    }
    tree_.structs.push_back(std::move(found));
    return expressions_.expect(close + 1, ";");
  }

  // `name(parameters) { body }`, or a prototype.
  size_t function(size_t name) {
    EmittedFunction found;
    found.name = code_[name];
    size_t at = parameters(name + 1, found.parameters);
    if (code_[at] == "const") ++at;
    if (code_[at] == ";") return at + 1;
    if (code_[at] != "{") throw UnknownForm{at};
    const size_t end = code_.closing(at, code_.size()) + 1;
    if (end > code_.size()) throw UnknownForm{at};
    found.body = Statements(code_, found.unknown).block(at, end);
    tree_.functions.push_back(std::move(found));
    return end;
  }

  size_t parameters(size_t open, std::vector<EmittedParameter>& found) const {
    size_t at = open + 1;
    if (code_[at] == ")") return at + 1;
    for (;; ++at) {
      const auto type = expressions_.type(at);
      if (!type) throw UnknownForm{at};
      const bool is_named = expressions_.is_plain_name(*type);
      found.push_back({code_[at], is_named ? code_[*type] : std::string_view(), {at, *type}});
      at = is_named ? *type + 1 : *type;
      if (code_[at] == ")") return at + 1;
      if (code_[at] != ",") throw UnknownForm{at};
    }
  }

  const Code& code_;
  const Expressions expressions_;
  EmittedTree tree_;
};

}  // namespace

EmittedTree read_tree(const Code& code) { return Declarations(code).all(); }

}  // namespace torch_slang
