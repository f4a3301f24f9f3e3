#include "compiler/text/tokens.h"

#include <algorithm>
#include <cctype>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string escaped(char c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\\\n";  // no directive goes on in the next line
    case '\r': return "\\\\r";
    default: return std::string{c};
  }
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    tokens_.reserve(text_.size() / 2);  // emitted texts have a token for some 3 characters
    while (at_ < text_.size()) one();
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void take(TokenKind kind, size_t end) {
    tokens_.push_back({kind, text_.substr(at_, end - at_)});
    if (kind != TokenKind::Space) line_start_ = false;
    at_ = end;
  }

  template <class Holds>
  size_t while_true(const Holds& holds) const {
    size_t end = at_;
    while (end < text_.size() && holds(text_[end])) ++end;
    return end;
  }

  size_t past_quote(char quote) const {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text_.size());
  }

  size_t line_end() const { return std::min(text_.find('\n', at_), text_.size()); }

  // Before a comment. A `\\` at a line's end continues it in the next.
  size_t directive_end() const {
    size_t end = line_end();
    if (is_line_directive(text_.substr(at_, end - at_))) return end;
    while (end < text_.size() && (text_[end - 1] == '\\' || text_.substr(end - 2, 2) == "\\\r")) {
      end = std::min(text_.find('\n', end + 1), text_.size());
    }
    bool quoted = false;
    for (size_t at = at_; at < end; ++at) {
      if (quoted && text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '"') {
        quoted = !quoted;
      } else if (!quoted && text_[at] == '/' && at + 1 < end && (text_[at + 1] == '/' || text_[at + 1] == '*')) {
        return at;
      }
    }
    return end;
  }

  // R"name( ... )name"
  size_t past_raw_string() const {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return text_.size();
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const size_t end = text_.find(close, open);
    return end == std::string_view::npos ? text_.size() : end + close.size();
  }

  void one() {
    const char c = peek(0);
    if (is_space(c)) {
      const size_t end = while_true(is_space);
      const bool new_line = text_.substr(at_, end - at_).find('\n') != std::string_view::npos;
      take(TokenKind::Space, end);
      line_start_ = line_start_ || new_line;
    } else if (c == '#' && line_start_) {
      take(TokenKind::Directive, directive_end());
    } else if (c == '/' && peek(1) == '/') {
      take(TokenKind::Comment, line_end());
    } else if (c == '/' && peek(1) == '*') {
      const size_t close = text_.find("*/", at_ + 2);
      take(TokenKind::Comment, close == std::string_view::npos ? text_.size() : close + 2);
    } else if (c == '"' || c == '\'') {
      take(TokenKind::String, past_quote(c));
    } else if (c == 'R' && peek(1) == '"') {
      take(TokenKind::String, past_raw_string());
    } else if (is_digit(c)) {
      take(TokenKind::Number, while_true([](char d) { return is_word(d) || d == '.'; }));
    } else if (is_word(c)) {
      take(TokenKind::Identifier, while_true(is_word));
    } else {
      take(TokenKind::Other, at_ + 1);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

bool is_line_directive(std::string_view directive) {
  const size_t word = directive.find_first_not_of(" \t", 1);
  return word != std::string_view::npos && directive.substr(word).starts_with("line ");
}

std::optional<LineDirective> read_line_directive(const Token& token) {
  const std::string_view directive = token.text;
  if (token.kind != TokenKind::Directive || !is_line_directive(directive)) return {};
  LineDirective read;
  for (size_t at = directive.find_first_of("0123456789"); at < directive.size() && is_digit(directive[at]); ++at) {
    read.line = 10 * read.line + static_cast<size_t>(directive[at] - '0');
  }
  const size_t first = directive.find('"'), last = directive.rfind('"');
  if (first < last) read.file = directive.substr(first + 1, last - first - 1);
  return read;
}

std::string line_directive(size_t line, std::string_view path) {
  std::string name;
  for (const char c : path) name += escaped(c);
  return "#line " + std::to_string(line) + " \"" + name + "\"";
}

bool is_code(const Token& token) {
  return token.kind != TokenKind::Space && token.kind != TokenKind::Comment && token.kind != TokenKind::Directive;
}

std::vector<Token> split_tokens(std::string_view text) { return Splitter(text).all(); }

std::string replace_identifier(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (const Token& token : split_tokens(text)) {
    result += token.kind == TokenKind::Identifier && token.text == from ? to : token.text;
  }
  return result;
}

}  // namespace torch_slang
