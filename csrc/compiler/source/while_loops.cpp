#include "compiler/source/while_loops.h"

#include <set>

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

}  // namespace

void write_for_loops(SourceCode& code) {
  const std::set<size_t> ends = ends_of_do(code);
  for (size_t at = 0; at < code.size(); ++at) {
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
