// Emitted text as tokens, and changes of it. Positions count tokens of code: `code[3]` is the fourth one, spaces, comments and
// directives left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ctext/tree.h"
#include "compiler/text/tokens.h"

namespace torch_slang {

inline constexpr std::string_view kElement = "_slang_vector_get_element_ptr";  // of a vector, by index: no call

bool opens(std::string_view token);  // a bracket

// A text and its tokens. Tokens are views of the text, which this object owns.
class Code {
 public:
  explicit Code(std::string text);
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  size_t size() const { return places_.size(); }
  std::string_view operator[](size_t at) const {
    return at < places_.size() ? tokens_[places_[at]].text : std::string_view();
  }
  bool is_name(size_t at) const { return at < places_.size() && tokens_[places_[at]].kind == TokenKind::Identifier; }
  bool is_number(size_t at) const { return at < places_.size() && tokens_[places_[at]].kind == TokenKind::Number; }
  bool is_string(size_t at) const { return at < places_.size() && tokens_[places_[at]].kind == TokenKind::String; }
  // `name` in `x.name` or `x->name`.
  bool is_member(size_t at) const {
    return at > 1 && ((*this)[at - 1] == "." || ((*this)[at - 1] == ">" && (*this)[at - 2] == "-"));
  }
  // No space stands between the two tokens at `at` and behind it.
  bool is_joined(size_t at) const { return at + 1 < places_.size() && places_[at] + 1 == places_[at + 1]; }
  // Without comments, and without spaces but those behind a name and before another or a number.
  std::string text_without_spaces(Span span) const;
  // The variables whose address a call is given.
  std::vector<std::string> handed_on(Span span) const;
  // The position of the bracket that closes the one at `open`; the span's end if none does.
  size_t closing(size_t open, size_t end) const;
  // The same of the angle bracket at `open`, of a type's arguments.
  size_t closing_angle(size_t open, size_t end) const;

  // `file:3`: the file and line that the last #line directive before the token names. Empty if no directive stands before it.
  std::string said_place(size_t at) const;

  // Changes, which `edited` puts into the text. They do not overlap; an insertion may stand at the edge of a replaced span.
  void replace(Span span, std::string text);
  void insert(size_t before, const std::string& text);
  void insert_behind(size_t at, const std::string& text);  // also before a #line that stands behind the token
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
  const std::vector<Token> tokens_;
  std::vector<size_t> places_;  // of code among the tokens
  std::vector<Edit> edits_;
};

}  // namespace torch_slang
