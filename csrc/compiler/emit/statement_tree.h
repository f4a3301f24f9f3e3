// The statements of one function of emitted text, as a tree over its tokens. Slang emits few forms: blocks, `if` with braces,
// loops `for(;;)`, `switch` whose cases have braces, jumps, and plain statements up to a `;`.
#pragma once

#include <string>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {

// Tokens begin to end - 1.
struct TokenRange {
  size_t begin = 0, end = 0;

  bool empty() const { return begin == end; }
};

struct Statement;

// Without the braces around it, if there are any.
struct StatementList {
  TokenRange tokens;
  std::vector<Statement> statements;
};

struct Statement {
  enum class Kind { Plain, Block, If, Loop, Switch, Break, Continue, Return };

  Kind kind = Kind::Plain;
  TokenRange tokens;
  TokenRange head;  // the condition, the selector, the returned value, or the whole plain statement
  std::vector<StatementList> parts;  // the block; then and else; the loop's body; one for each case
  std::vector<std::vector<TokenRange>> labels;  // of each case; an empty one stands for `default`
};

// Thrown for a statement of another form: where it begins.
struct UnknownStatement {
  size_t token;
};

// `body`: the text between the braces of a function. Throws UnknownStatement.
StatementList parse_statements(const std::vector<Token>& tokens, TokenRange body);

// The next token of code from `at` on, or the end.
size_t code_from(const std::vector<Token>& tokens, size_t at);
// The partner of the bracket at `open`; the end if there is none.
size_t partner_of(const std::vector<Token>& tokens, size_t open);

}  // namespace torch_slang
