// The part of the strict grammar (reader.h) that is for expressions and types.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/ctext/tree.h"

namespace torch_slang {

// Note [known forms]
//   Slang writes a small part of C++: expressions without assignments, commas and lambdas in them, calls, casts, aggregates,
//   and types with arguments (`FixedArray<float, 3>`). Functions of Slang's core, and users by __intrinsic_asm, add text of their own.
//   Each function here takes the position where an expression or a type begins, and returns the position behind it. It throws
//   UnknownForm where the grammar has no such expression.
//     - `name<` without a space begins the arguments of a type or function where it can be read so; Slang puts spaces around
//       operators.
class Expressions {
 public:
  explicit Expressions(const Code& code) : code_(code) {}

  size_t expression(size_t at) const;
  // An expression, or a list in braces.
  size_t value(size_t at) const;
  // None if there is no type.
  std::optional<size_t> type(size_t at) const;
  // `name[3] = value`, what a declaration has behind its type.
  size_t declarator(size_t at) const;
  // `[3][4]` behind a declaration's name, or nothing.
  size_t lengths(size_t at) const;
  // `=`, `+=`, `>>=` and the like: how many tokens. 0: none.
  size_t assigning(size_t at) const;
  // Behind the bracket `text`, which has to stand there.
  size_t expect(size_t at, std::string_view text) const;
  // A name that is no word of the language.
  bool is_plain_name(size_t at) const;

 private:
  // Words in front of a declaration: `static`, `__device__`, `extern "C"`, ...
  size_t specifiers(size_t at) const;
  size_t operand(size_t at) const;
  size_t primary(size_t at) const;
  size_t postfix(size_t at) const;
  size_t list(size_t open, std::string_view close) const;
  size_t qualified_name(size_t at) const;
  std::optional<size_t> cast(size_t open) const;
  std::optional<size_t> arguments_of_type(size_t angle) const;
  std::optional<size_t> argument_of_type(size_t at) const;
  size_t binary(size_t at) const;
  bool is_of_operators(size_t at) const;
  bool joined(size_t at, std::string_view text) const;

  const Code& code_;
};

}  // namespace torch_slang
