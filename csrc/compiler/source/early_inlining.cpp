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
  for (const DifferentiableFunction& function : differentiable_functions(tokens)) {
    if (returns_early(tokens, function)) continue;
    const bool has_order = tokens[function.attribute + 1] == "(";  // [Differentiable(1)]
    const std::string_view last = tokens[has_order ? tokens.closing(function.attribute + 1) : function.attribute];
    edits.insert(edits.place(last) + last.size(), kMark);
  }
  return edits.applied();
}

}  // namespace torch_slang
