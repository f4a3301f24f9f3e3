// A pass: gradients that Slang assigns to an element, and should add to it. It repairs derivatives of arrays, vectors and
// matrices that are read by several indices.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [added gradients]
//   Where elements of one array, vector or matrix are read by index expressions that differ, the backward that Slang 2026.12
//   emits collects their gradients in a variable that begins as zero, and assigns each element (materializeGetElementGradients
//   in slang-ir-autodiff-transpose.cpp):
//     double f(double m[2], int i) { return x * m[i] + m[1]; }   =>   d = zero;  d[1] = a;  d[i] = b;
//   Where i is 1, `a` is lost. So an assignment to an element that an earlier one may have assigned becomes an addition.
//     - Two lvalues may be one element if no literal index or field tells them apart.
//     - The user's own text, which is computed again there, may look the same and must stay. It does not depend on gradients:
//       those come from the parameters of `s_bwdProp_` functions, from `differential` fields and from views' gradients, and
//       values computed from them are followed through assignments, branches, loops and calls.
//     - Slang's own are the functions called `s_bwdProp_`, [ForceInline] or not. In a backward that the user has written,
//       assignments are meant (Note [inlined backwards]).
//     - A variable that is not known to have begun as zero, and whose elements get gradients that may meet, is refused.
// Note [first gradients]
//   The gradient of a variable that is passed to a function as `inout` is kept in memory, to which the backward of each
//   reading adds; but of those of a local variable the one that Slang comes to first assigns (transposeLoad, usedPtrs). In
//   a loop it does so in each iteration, and behind the backward of a call it drops what that has left there:
//     double r = h(v, x);  for (...) s += x * v[k];   =>   for (...) { ...; dv = g; }  s_bwdProp_h(..., &dv, ...);
//   So where such a variable may hold something by then, that is added to.
// Throws RefusedText.
void add_met_gradients(EmittedCode& code);

}  // namespace torch_slang
