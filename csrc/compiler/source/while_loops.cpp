#include "compiler/source/while_loops.h"

#include <set>
#include <string_view>

#include "compiler/source/source_edits.h"
#include "compiler/source/source_tokens.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// The `while` of each `do`, by tokens.
std::set<size_t> ends_of_do(const SourceTokens& tokens) {
  std::set<size_t> ends;
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == "do" && tokens[at + 1] == "{") ends.insert(tokens.closing(at + 1) + 1);
  }
  return ends;
}

// A `do` without braces: its `while` is not looked for.
bool has_bare_do(const SourceTokens& tokens) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == "do" && tokens[at + 1] != "{") return true;
  }
  return false;
}

// `while (let x = ...)` and `while (int x = ...)` declare a variable.
bool declares(const SourceTokens& tokens, size_t open) { return tokens.is_name(open + 1) && tokens.is_name(open + 2); }

}  // namespace

std::string with_for_loops(const std::string& source) {
  const SourceTokens tokens(source);
  if (has_bare_do(tokens)) return source;
  SourceEdits edits(source);
  for (const Token& token : split_tokens(source)) {
    if (token.kind != TokenKind::Directive) continue;  // a macro's definition may have loops too
    edits.replace(token.text, "#" + with_for_loops(std::string(token.text.substr(1))));
  }
  const std::set<size_t> ends = ends_of_do(tokens);
  for (size_t at = 0; at < tokens.size(); ++at) {
    const size_t open = at + 1, close = tokens.closing(open);
    if (tokens[at] != "while" || tokens[open] != "(" || close >= tokens.size()) continue;
    if (ends.count(at) > 0 || declares(tokens, open)) continue;
    edits.replace(tokens[at], "for");
    edits.replace(tokens[open], "(;");
    if (close == open + 2 && tokens[open + 1] == "true") edits.replace(tokens[open + 1], "");
    edits.replace(tokens[close], ";)");
  }
  return edits.applied();
}

}  // namespace torch_slang
