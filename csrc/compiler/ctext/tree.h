// The tree of emitted text: structs, functions, and the statements of functions. Positions count tokens of code, as in code.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/text/code.h"

namespace torch_slang {

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

// What the grammar of reader.h does not have: where it begins.
struct UnknownForm {
  size_t at;
};

struct EmittedFunction {
  std::string_view name;
  std::vector<EmittedParameter> parameters;
  EmittedStatement body;
  std::optional<UnknownForm> unknown;  // the first in it
};

struct EmittedField {
  std::string_view name;
  bool is_pointer = false;
  Span type;
};

struct EmittedStruct {
  std::string_view name;
  std::vector<EmittedField> fields;
  size_t begin = 0, end = 0;  // the word `struct`, the closing brace
};

struct EmittedTree {
  std::vector<EmittedFunction> functions;
  std::vector<EmittedStruct> structs;
  std::optional<UnknownForm> unknown;  // the first outside of functions
};

// Calls f(statement) for each Simple statement, in the order of the text.
template <class F>
void for_each_simple(const EmittedStatement& statement, const F& f) {
  if (statement.kind == EmittedStatement::Kind::Simple) return f(statement);
  for (const EmittedStatement& part : statement.parts) for_each_simple(part, f);
}

}  // namespace torch_slang
