// Has functions inlined before derivatives are made, for texts of second derivatives.
#pragma once

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [functions inlined early]
//   Slang differentiates no derivative of a call with `out` or `inout` arguments, of a method, or through an interface: it
//   crashes, or aborts. It does where the called function is part of the caller before derivatives are made, so for what
//   crashes a request may ask for that (kInlineEarly).
//   A function that returns early stays a call, where it cannot be rewritten (Note [single exits] in single_exits.h). Inlined, Slang
//   takes what stands behind the condition for something that may be computed before it: `if (x > 0) return log(x); return 0;` had a
//   second derivative of NaN at -1, which is 0 times that of the logarithm.
void inline_early(SourceCode& code);

}  // namespace torch_slang
