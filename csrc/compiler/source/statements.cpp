#include "compiler/source/statements.h"

namespace torch_slang {
namespace {

size_t behind_head(const SourceCode& code, size_t at) {
  return code[at + 1] == "(" ? code.closing(at + 1) + 1 : at + 1;
}

size_t behind_semicolon(const SourceCode& code, size_t at) { return code.first_of(";}", at) + 1; }

}  // namespace

size_t behind_statement(const SourceCode& code, size_t at) {
  while (code[at] == "[") at = code.closing(at) + 1;
  const std::string_view word = code[at];
  if (word == "{") return code.closing(at) + 1;
  if (word == "do") {
    const size_t end = behind_statement(code, at + 1);
    return behind_semicolon(code, code[end] == "while" ? end + 1 : end);
  }
  if (word == "if") {
    const size_t then = behind_statement(code, behind_head(code, at));
    return code[then] == "else" ? behind_statement(code, then + 1) : then;
  }
  if (word == "for" || word == "while" || word == "switch") return behind_statement(code, behind_head(code, at));
  if (word == "$") return behind_statement(code, behind_head(code, at + 1));
  if (code.is_name(at) && code[at + 1] == ":" && code[at + 2] != ":") return behind_statement(code, at + 2);
  return behind_semicolon(code, at);
}

}  // namespace torch_slang
