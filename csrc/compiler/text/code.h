// A text of a C-like language as tokens, and changes of it: emitted text (EmittedCode) or a user's source (SourceCode). Positions
// count tokens of code: `code[3]` is the fourth one, spaces, comments and directives left out.
#pragma once

#include <span>
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

// Whether the token is a bracket.
inline bool opens(std::string_view token) { return token == "(" || token == "[" || token == "{"; }
inline bool closes(std::string_view token) { return token == ")" || token == "]" || token == "}"; }

// A text and its tokens. Tokens are views of the text, which this object owns.
class Code {
 public:
  // `file`: whose text it is, for errors; of emitted text the #line directives say it.
  explicit Code(std::string text, std::string file = {});
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  const std::string& text() const { return text_; }
  const std::string& file() const { return file_; }
  const std::vector<Token>& tokens() const { return tokens_; }  // spaces, comments and directives too
  size_t size() const { return code_tokens_.size(); }
  std::string_view operator[](size_t at) const {
    return at < code_tokens_.size() ? tokens_[code_tokens_[at]].text : std::string_view();
  }
  bool is_name(size_t at) const {
    return at < code_tokens_.size() && tokens_[code_tokens_[at]].kind == TokenKind::Identifier;
  }
  bool is_number(size_t at) const {
    return at < code_tokens_.size() && tokens_[code_tokens_[at]].kind == TokenKind::Number;
  }
  bool is_string(size_t at) const {
    return at < code_tokens_.size() && tokens_[code_tokens_[at]].kind == TokenKind::String;
  }
  // `name` in `x.name` or `x->name`.
  bool is_member(size_t at) const {
    return at > 1 && ((*this)[at - 1] == "." || ((*this)[at - 1] == ">" && (*this)[at - 2] == "-"));
  }
  // No space stands between the two tokens at `at` and behind it.
  bool is_joined(size_t at) const {
    return at + 1 < code_tokens_.size() && code_tokens_[at] + 1 == code_tokens_[at + 1];
  }
  bool has_directive(Span span) const;  // between its tokens
  // From the first token to the last, as it is written.
  std::string_view text(Span span) const;
  // What stands between the token and the one before it: spaces, comments, directives. At `size()`, behind the last.
  std::span<const Token> before(size_t at) const;
  std::string text_in_front(size_t at) const;  // the same as text
  // As it stands, with the spaces and comments before each token, but without directives.
  std::string spaced_text(Span span) const;
  // How many tokens `text(span)` has, those that are no code among them.
  size_t written_tokens(Span span) const {
    return span.size() == 0 ? 0 : code_tokens_[span.end - 1] + 1 - code_tokens_[span.begin];
  }
  // Without comments, and without spaces but those behind a name and before another or a number.
  std::string text_without_spaces(Span span) const;
  // The position of the bracket that closes the one at `open`; the end if none does.
  size_t closing(size_t open, size_t end) const;
  size_t closing(size_t open) const { return closing(open, size()); }
  // The same of the angle bracket at `open`, of a type's arguments.
  size_t closing_angle(size_t open, size_t end) const;
  // The position of the bracket that opens the one at `close`; 0 if none does.
  size_t opening(size_t close) const;

  // `file:3`: the file and line that the last #line directive before the token names. Empty if no directive stands before it.
  std::string said_place(size_t at) const;
  // `file:3`: where the token comes from; without #line directives its line in the text.
  std::string location(size_t at) const { return location_of_token(token_of(at)); }
  size_t line(size_t at) const;  // in the text
  size_t first_from_line(size_t line) const;  // the first token in or behind a line of the text

  // Whose the changes are from here on: for messages.
  void begin_changes(std::string_view by) { by_ = by; }
  // Changes, which `edited` puts into the text. They do not overlap; an insertion may stand at the edge of a replaced span.
  void replace(Span span, std::string text);  // the directives in it stay, behind the text
  void replace_all(Span span, std::string text);  // they go
  void insert(size_t before, const std::string& text);
  // Before all that was inserted there so far.
  void insert_first(size_t before, const std::string& text);
  void insert_behind(size_t at, const std::string& text);  // also before a #line that stands behind the token
  // Also before a #pragma, which speaks of what is behind it.
  void insert_above(size_t before, const std::string& text);
  void remove(Span span) { replace_all(span, {}); }  // with its directives
  bool is_edited() const { return !edits_.empty(); }
  size_t edits() const { return edits_.size(); }
  void forget_edits(size_t count) { edits_.resize(count); }  // all but the first `count`
  void replace_directive(size_t token, std::string text);  // a position among `tokens`
  std::string edited() const;

 private:
  struct Edit {
    size_t begin, end;  // the tokens that the text replaces
    std::string text;
    bool first = false;
    std::string_view by = {};
    bool keeps_directives = true;
  };
  size_t token_of(size_t at) const { return at < code_tokens_.size() ? code_tokens_[at] : tokens_.size(); }
  std::string location_of_token(size_t token) const;

  const std::string text_, file_;
  const std::vector<Token> tokens_;
  std::vector<size_t> code_tokens_;  // of code among the tokens
  std::vector<Edit> edits_;
  std::string_view by_;
};

}  // namespace torch_slang
