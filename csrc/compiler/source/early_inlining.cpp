#include "compiler/source/early_inlining.h"

#include "compiler/source/differentiable_functions.h"

namespace torch_slang {
namespace {

constexpr const char* kForceInline = ", __unsafeForceInlineEarly";

}  // namespace

void inline_early(SourceCode& code) {
  for (const DifferentiableFunction& function : differentiable_functions(code)) {
    if (returns_early(code, function)) continue;
    const bool has_order = code[function.attribute + 1] == "(";  // [Differentiable(1)]
    code.insert_behind(has_order ? code.closing(function.attribute + 1) : function.attribute, kForceInline);
  }
}

}  // namespace torch_slang
