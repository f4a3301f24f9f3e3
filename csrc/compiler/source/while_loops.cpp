#include "compiler/source/while_loops.h"

#include <set>
#include <string_view>

#include "compiler/source/source_edits.h"
#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

// Finds the `while` of each `do`. Walks statements, as a `do` may have one without braces.
class EndsOfDo {
 public:
  explicit EndsOfDo(const SourceTokens& tokens) : tokens_(tokens) {
    for (size_t at = 0; at < tokens_.size(); ++at) {
      if (tokens_[at] == "do") end_of_do(at);
    }
  }

  bool has(size_t at) const { return ends_.count(at) > 0; }

 private:
  // Behind the `while`, or where none stands.
  size_t end_of_do(size_t at) {
    const size_t end = behind_statement(at + 1);
    if (tokens_[end] != "while") return end;
    ends_.insert(end);
    return end + 1;
  }

  size_t behind_statement(size_t at) {
    while (tokens_[at] == "[") at = tokens_.closing(at) + 1;
    const std::string_view word = tokens_[at];
    if (word == "{") return tokens_.closing(at) + 1;
    if (word == "do") return behind_semicolon(end_of_do(at));
    if (word == "if") {
      const size_t then = behind_statement(behind_head(at));
      return tokens_[then] == "else" ? behind_statement(then + 1) : then;
    }
    if (word == "for" || word == "while" || word == "switch") return behind_statement(behind_head(at));
    if (word == "$") return behind_statement(behind_head(at + 1));
    if (tokens_.is_name(at) && tokens_[at + 1] == ":" && tokens_[at + 2] != ":") return behind_statement(at + 2);
    return behind_semicolon(at);
  }

  size_t behind_head(size_t at) const { return tokens_[at + 1] == "(" ? tokens_.closing(at + 1) + 1 : at + 1; }

  size_t behind_semicolon(size_t at) const {
    while (at < tokens_.size() && tokens_[at] != ";" && tokens_[at] != "}") {
      const bool opens = tokens_[at] == "(" || tokens_[at] == "[" || tokens_[at] == "{";
      at = opens ? tokens_.closing(at) + 1 : at + 1;
    }
    return at + 1;
  }

  const SourceTokens& tokens_;
  std::set<size_t> ends_;
};

}  // namespace

std::string with_for_loops(const std::string& source) {
  if (source.find("while") == std::string::npos) return source;
  const SourceTokens tokens(source);
  const EndsOfDo ends(tokens);
  SourceEdits edits(source);
  for (size_t at = 0; at < tokens.size(); ++at) {
    const size_t open = at + 1, close = tokens.closing(open);
    if (tokens[at] != "while" || tokens[open] != "(" || close >= tokens.size() || ends.has(at)) continue;
    edits.replace(tokens[at], "for");
    edits.replace(tokens[open], "(;");
    if (close == open + 2 && tokens[open + 1] == "true") edits.replace(tokens[open + 1], "");
    edits.replace(tokens[close], ";)");
  }
  return edits.applied();
}

}  // namespace torch_slang
