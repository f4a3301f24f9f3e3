// The functions with a body in a source: their attributes, types, names and parameters, as positions of tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source_code.h"
#include "compiler/source/type_declarations.h"

namespace torch_slang {

struct FunctionHead {
  // The first attribute; what the function returns; its name; the brackets of its parameters; the braces of its body.
  size_t begin = 0, type = 0, name = 0, open = 0, close = 0, body = 0, end = 0;
  Names attributes;  // the names in them, arguments too
  bool is_static = false;

  bool has(std::string_view attribute) const { return attributes.count(attribute) > 0; }
  bool is_kernel() const;
  bool is_differentiable() const;    // as Slang derives it
  bool has_own_derivative() const;
  bool may_become_differentiable() const;  // the user says nothing of its derivative
  // It may, and is one of these functions.
  bool becomes_differentiable(const SourceCode& code, const Names& functions) const {
    return may_become_differentiable() && functions.count(code[name]) > 0;
  }
};

std::vector<FunctionHead> function_heads(const SourceCode& code);

// Where the parameters of the brackets begin, behind their attributes.
std::vector<size_t> parameter_begins(const SourceCode& code, size_t open);

}  // namespace torch_slang
