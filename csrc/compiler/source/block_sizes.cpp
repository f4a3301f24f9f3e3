#include "compiler/source/block_sizes.h"

namespace torch_slang {
namespace {

// `x[`, `f()[`, `x[0][`: not `[` where attributes begin, behind which other attributes may be.
bool is_index(const SourceCode& code, size_t open) {
  return open > 0 && (code.is_name(open - 1) || code[open - 1] == ")");
}

// The arguments behind the parenthesis at `open`. For none, and for more than three, Slang has an error.
void complete(SourceCode& code, size_t open) {
  const size_t close = code.closing(open);
  if (close == code.size() || close == open + 1) return;
  size_t sizes = 1;
  for (size_t at = open + 1; (at = code.first_of(",", at, close)) < close; ++at) ++sizes;
  for (; sizes < 3; ++sizes) code.insert(close, ", 1");
}

}  // namespace

void complete_block_sizes(SourceCode& code) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] != "[" || is_index(code, at)) continue;
    for (size_t name = at + 1; name < code.size() && code[name] != "]"; ++name) {
      if (opens(code[name])) name = code.closing(name);
      if (code[name] == "BlockSize" && code[name + 1] == "(") complete(code, name + 1);
    }
  }
}

}  // namespace torch_slang
