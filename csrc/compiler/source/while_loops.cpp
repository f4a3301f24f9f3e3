#include "compiler/source/while_loops.h"

#include <set>
#include <string_view>

namespace torch_slang {
namespace {

// Finds the `while` of each `do`. Walks statements, as a `do` may have one without braces.
class EndsOfDo {
 public:
  explicit EndsOfDo(const SourceCode& code) : code_(code) {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (code_[at] == "do") end_of_do(at);
    }
  }

  bool has(size_t at) const { return ends_.count(at) > 0; }

 private:
  // Behind the `while`, or where none stands.
  size_t end_of_do(size_t at) {
    const size_t end = behind_statement(at + 1);
    if (code_[end] != "while") return end;
    ends_.insert(end);
    return end + 1;
  }

  size_t behind_statement(size_t at) {
    while (code_[at] == "[") at = code_.closing(at) + 1;
    const std::string_view word = code_[at];
    if (word == "{") return code_.closing(at) + 1;
    if (word == "do") return behind_semicolon(end_of_do(at));
    if (word == "if") {
      const size_t then = behind_statement(behind_head(at));
      return code_[then] == "else" ? behind_statement(then + 1) : then;
    }
    if (word == "for" || word == "while" || word == "switch") return behind_statement(behind_head(at));
    if (word == "$") return behind_statement(behind_head(at + 1));
    if (code_.is_name(at) && code_[at + 1] == ":" && code_[at + 2] != ":") return behind_statement(at + 2);
    return behind_semicolon(at);
  }

  size_t behind_head(size_t at) const { return code_[at + 1] == "(" ? code_.closing(at + 1) + 1 : at + 1; }

  size_t behind_semicolon(size_t at) const { return code_.first_of(";}", at) + 1; }

  const SourceCode& code_;
  std::set<size_t> ends_;
};

}  // namespace

void write_for_loops(SourceCode& code) {
  const EndsOfDo ends(code);
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != "while" || code[at + 1] != "(" || ends.has(at)) continue;
    const size_t open = at + 1, close = code.closing(open);
    if (close >= code.size()) continue;
    code.replace({at, at + 1}, "for");
    code.replace({open, open + 1}, "(;");
    if (close == open + 2 && code[open + 1] == "true") code.replace({open + 1, close}, "");
    code.replace({close, close + 1}, ";)");
  }
}

}  // namespace torch_slang
