#include "compiler/source/early_inlining.h"

#include <string_view>

#include "compiler/source/differentiable_functions.h"

namespace torch_slang {
namespace {

constexpr std::string_view kMark = ", __unsafeForceInlineEarly";

}  // namespace

std::string with_early_inlining(const std::string& source) {
  const SourceTokens tokens(source);
  std::string result;
  size_t copied = 0;
  for (const DifferentiableFunction& function : differentiable_functions(source, tokens)) {
    if (function.hides_return || returns_early(tokens, function)) continue;
    const std::string_view name = tokens[function.attribute];
    const size_t end = static_cast<size_t>(name.data() - source.data()) + name.size();
    result += source.substr(copied, end - copied) + std::string(kMark);
    copied = end;
  }
  return result + source.substr(copied);
}

}  // namespace torch_slang
