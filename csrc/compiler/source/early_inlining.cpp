#include "compiler/source/early_inlining.h"

#include <string_view>

#include "compiler/source/differentiable_functions.h"
#include "compiler/source/source_edits.h"

namespace torch_slang {
namespace {

constexpr const char* kMark = ", __unsafeForceInlineEarly";

}  // namespace

std::string with_early_inlining(const std::string& source) {
  const SourceTokens tokens(source);
  SourceEdits edits(source);
  for (const DifferentiableFunction& function : differentiable_functions(source, tokens)) {
    if (function.hides_return || returns_early(tokens, function)) continue;
    const std::string_view name = tokens[function.attribute];
    edits.insert(edits.place(name) + name.size(), kMark);
  }
  return edits.applied();
}

}  // namespace torch_slang
