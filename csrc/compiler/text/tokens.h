// Just enough of a C-like lexer to edit emitted text: it knows identifiers, strings, comments and directives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

enum class TokenKind { Identifier, Number, String, Comment, Directive, Space, Other };

struct Token {
  TokenKind kind;
  std::string_view
      text;  // of the text that was split; a Directive holds its lines, without their end and a comment there
};

// `#line 3 "file"`, whose file's name is written as it is; without one it is that of the directive before.
struct LineDirective {
  size_t line = 0;
  std::string_view file;
};
bool is_line_directive(std::string_view directive);
std::optional<LineDirective> read_line_directive(const Token& token);  // none if the token is no such directive
// `#line 3 "file"` with the characters escaped that a C++ compiler does not take as they are.
std::string line_directive(size_t line, std::string_view file);
// Not what only stands between: spaces, comments, directives.
bool is_code(const Token& token);
std::vector<Token> split_tokens(std::string_view text);
std::string replace_identifier(std::string_view text, std::string_view from, std::string_view to);

}  // namespace torch_slang
