// Emitted text as functions and statements, for passes that need to know what runs after what. Positions count tokens of
// code: `code[3]` is the fourth one, spaces, comments and directives left out.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {

// Tokens of code from `begin` to before `end`.
struct Span {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

struct EmittedStatement {
  enum class Kind { Simple, Block, If, Loop, Switch };
  Kind kind = Kind::Simple;
  Span span;  // the whole statement
  Span head;  // If, Loop, Switch: the text in the parentheses
  std::vector<EmittedStatement> parts;  // Block: its statements; If: then, perhaps else; Loop, Switch: the body
};

struct EmittedParameter {
  std::string_view type, name;  // the first word of the type
  Span whole_type;
};

struct EmittedFunction {
  std::string_view name;
  std::vector<EmittedParameter> parameters;
  EmittedStatement body;
};

struct EmittedField {
  std::string_view name;
  bool is_pointer = false;
  Span type;
};

struct EmittedStruct {
  std::string_view name;
  std::vector<EmittedField> fields;
  size_t end = 0;  // the closing brace
};

// A field that Slang calls `differential` holds a gradient in a backward, and a tangent in a forward derivative; in the
// backward of a forward derivative it holds either.
enum class Differentials { Gradients, Tangents };

// Text and its tokens; keeps what the views of its tokens point into.
class EmittedCode {
 public:
  // `differentials`: whether the text's fields called `differential` hold gradients or tangents.
  explicit EmittedCode(std::string text, Differentials differentials = Differentials::Gradients);
  EmittedCode(const EmittedCode&) = delete;
  EmittedCode& operator=(const EmittedCode&) = delete;

  size_t size() const { return places_.size(); }
  std::string_view operator[](size_t at) const {
    return at < places_.size() ? tokens_[places_[at]].text : std::string_view();
  }
  bool is_name(size_t at) const { return at < places_.size() && tokens_[places_[at]].kind == TokenKind::Identifier; }
  bool is_number(size_t at) const { return at < places_.size() && tokens_[places_[at]].kind == TokenKind::Number; }
  // `name` in `x.name` or `x->name`.
  bool is_member(size_t at) const {
    return at > 1 && ((*this)[at - 1] == "." || ((*this)[at - 1] == ">" && (*this)[at - 2] == "-"));
  }
  // No space stands between the two tokens at `at` and behind it.
  bool is_joined(size_t at) const { return at + 1 < places_.size() && places_[at] + 1 == places_[at + 1]; }
  // Without comments, and without spaces but those between two names.
  std::string text_without_spaces(Span span) const;
  // The variables whose address a call is given.
  std::vector<std::string> handed_on(Span span) const;
  // The position of the bracket that closes the one at `open`; the span's end if none does.
  size_t closing(size_t open, size_t end) const;
  // The same of the angle bracket at `open`, of a type's arguments.
  size_t closing_angle(size_t open, size_t end) const;

  // `file:3`, the place that the last #line before the token names; empty if there is none.
  std::string said_place(size_t at) const;

  Differentials differentials() const { return differentials_; }
  const std::vector<EmittedFunction>& functions() const { return functions_; }
  const std::vector<EmittedStruct>& structs() const { return structs_; }

  // Changes, which `edited` puts into the text.
  void replace(Span span, std::string text);
  void insert(size_t before, const std::string& text);
  void insert_behind(size_t at, const std::string& text);  // before the #line of what follows
  bool is_edited() const { return !edits_.empty(); }
  size_t edits() const { return edits_.size(); }
  std::string edited() const;

 private:
  struct Edit {
    size_t at;  // of the tokens
    Span span;
    std::string text;
  };

  const std::string text_;
  const Differentials differentials_;
  const std::vector<Token> tokens_;
  std::vector<size_t> places_;  // of code among the tokens
  std::vector<EmittedFunction> functions_;
  std::vector<EmittedStruct> structs_;
  std::vector<Edit> edits_;
};

// A step from an aggregate to a part of it. Two steps at one depth name different parts only if both are literal and differ.
struct Step {
  std::string text;
  bool literal = false;  // a field, a component, or a number
};

// The left side of an assignment: a variable, or a part of it.
struct Place {
  std::string variable;
  std::vector<Step> steps;
};

bool may_overlap(const std::vector<Step>& a, const std::vector<Step>& b);

struct Assignment {
  enum class Kind {
    Declare,  // T x = value;  or  T x;  (then the value is empty)
    Whole,  // x = value;
    Part,  // x[i] = value;  (&x)->field = value;  *&((&x)->y) = value;
    Other,  // through a pointer, `+=`, and unknown forms
  };
  Kind kind = Kind::Other;
  Place place;
  Span value;
};

// The statement as an assignment; none if it is no assignment.
std::optional<Assignment> assignment(const EmittedCode& code, const EmittedStatement& statement);
// The part of a variable that the expression names, and nothing else.
std::optional<Place> place_of(const EmittedCode& code, Span expression);

// Calls f(statement) for each Simple statement, in the order of the text.
template <class F>
void for_each_simple(const EmittedStatement& statement, const F& f) {
  if (statement.kind == EmittedStatement::Kind::Simple) return f(statement);
  for (const EmittedStatement& part : statement.parts) for_each_simple(part, f);
}

}  // namespace torch_slang
