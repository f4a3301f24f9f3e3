// Makes the results of calls constants where a source says so: `no_diff f(x)`, and calls of [TreatAsDifferentiable] functions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Note [constant calls]
//   No derivative goes through `no_diff f(x)`. Slang takes it for leave to call a function that has no derivative; where f has
//   one, it goes through (Slang's issue 10726), and variables that the call changes keep the tangent they had. Of a
//   [TreatAsDifferentiable] function Slang takes not only the derivative for zero, but in derivatives the value too (11670).
//     - `no_diff f(x)` becomes `tsl_constant(no_diff f(x))`, and `no_diff f(x, r)` of an `out` parameter
//       `tsl_constant(no_diff f(x, r), tsl_stop(r))` (slang/constants.slang).
//     - A [TreatAsDifferentiable] function gets another name, and a [Differentiable] one that calls it so gets its own.
//       The code of a constructor becomes a method.
//     - `t = detach(x)` of an `inout` or `out` parameter t becomes `t = tsl_constant(x)`: Slang leaves t its older tangent.
//   Lines stay.

// For each function that has `out` or `inout` parameters, by name, which ones.
using OutParameters = std::map<std::string, std::set<size_t>, std::less<>>;
void add_out_parameters(const SourceCode& code, OutParameters& found);

void make_calls_constant(SourceCode& code, const OutParameters& outs);

}  // namespace torch_slang
