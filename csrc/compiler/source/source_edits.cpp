#include "compiler/source/source_edits.h"

#include <algorithm>

namespace torch_slang {

std::string SourceEdits::applied() const {
  std::vector<Edit> edits = edits_;
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
  std::string result;
  size_t copied = 0;
  for (const Edit& edit : edits) {
    result.append(source_, copied, edit.begin - copied).append(edit.text);
    copied = edit.end;
  }
  return result.append(source_, copied);
}

}  // namespace torch_slang
