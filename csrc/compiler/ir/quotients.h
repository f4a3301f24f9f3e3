// Divisions of floating-point numbers, made calls of the library's `__quotient` before Slang makes derivatives.
//
// Note [quotients]
//   `a / b` is one instruction to Slang, whose derivative is written into its compiler (translateBinaryArith in
//   slang-ir-autodiff-fwd.cpp): (da * b - a * db) / (b * b). In float that is 0, infinite or NaN for a divisor beyond 1.8e19 or below
//   1e-19, in half beyond 255 or below 0.004, though the quotient is an ordinary number. An overload of the operator is not asked:
//   Slang's type checker makes the instruction of builtin types at once. `__quotient` (slang/derivatives.slang) has the same
//   value, and derivatives g / b and -(a / b) * (g / b), which can be differentiated again.
//   Note [calls of the library] says how the calls are made. A constant divisor needs none: Slang divides by it alone.
#pragma once

#include "compiler/ir/library_calls.h"
#include "compiler/ir/module_edits.h"

namespace torch_slang {

void call_quotients(ModuleEdits& module, LibraryCalls& library);

}  // namespace torch_slang
