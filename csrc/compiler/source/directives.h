// What the preprocessor's directives in a text say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/code.h"

namespace torch_slang {

// The words of a directive, without its `#`, spaces and comments; views of it.
std::vector<Token> words_of(const Token& directive);

// `#include "name"` or `#include <name>`.
struct Include {
  size_t token;  // of the directive, among the text's
  std::string_view name;
  bool in_quotes;
};
std::vector<Include> includes_of(const Code& code);

// `F` of a define `F(x)`.
std::string macro_name(const std::string& define);

}  // namespace torch_slang
