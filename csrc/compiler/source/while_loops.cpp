#include "compiler/source/while_loops.h"

#include <set>
#include <string>

#include "compiler/source/statements.h"

namespace torch_slang {
namespace {

// The `while` of each `do`.
std::set<size_t> ends_of_do(const SourceCode& code) {
  std::set<size_t> ends;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == "do") ends.insert(behind_statement(code, at + 1));
  }
  return ends;
}

// Whether the loop whose body is the statement from `begin` to before `end` has a `continue`. One in an inner loop does not count.
bool has_continue(const SourceCode& code, size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) {
    if (code[at] == "continue") return true;
    if (code[at] == "for" || code[at] == "while" || code[at] == "do") at = behind_statement(code, at) - 1;
  }
  return false;
}

void write_do_with_continue(SourceCode& code, size_t at) {
  const size_t end = behind_statement(code, at), ends_body = behind_statement(code, at + 1);
  if (code[ends_body] != "while" || end > code.size() || !has_continue(code, at + 1, ends_body)) return;
  const size_t open = ends_body + 1, close = code.closing(open);
  const std::string again = "tsl_again_" + std::to_string(at);
  const std::string condition = code.text_without_spaces({open + 1, close});
  const bool is_once = condition == "false" || condition == "0";
  const std::string most = is_once && code[at - 1] != "]" ? "[MaxIters(1)] " : "";  // Slang needs none of a `do` then
  code.replace({at, at + 1},
               most + "for (bool " + again + " = true; " + again + "; " + again + " = (" + condition + "))");
  code.replace({ends_body, end}, "");
}

}  // namespace

void write_for_loops(SourceCode& code) {
  const std::set<size_t> ends = ends_of_do(code);
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == "do") write_do_with_continue(code, at);
    if (code[at] != "while" || code[at + 1] != "(" || ends.count(at) > 0) continue;
    const size_t open = at + 1, close = code.closing(open);
    if (close >= code.size()) continue;
    code.replace({at, at + 1}, "for");
    code.replace({open, open + 1}, "(;");
    if (close == open + 2 && code[open + 1] == "true") code.replace({open + 1, close}, "");
    code.replace({close, close + 1}, ";)");
  }
}

}  // namespace torch_slang
