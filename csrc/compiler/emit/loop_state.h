// A pass over the arrays in which derivatives keep values of each iteration of a loop. It repairs their indices, and ends a loop
// for which the array has no room.
#pragma once

#include <string>
#include <vector>

#include "compiler/text/code.h"

namespace torch_slang {

// Note [loop state]
//   A derivative's forward part keeps what each iteration of a loop leaves, by the iteration's number, in arrays of its
//   context; the backward part runs the loop from its end and looks there:
//     s_minCtx_f _S22;   int _pc_0 = int(0);   for(;;) { (&_S22)->value5_0[_pc_0] = v; ... _pc_0 = _pc_0 + int(1); }
//   The arrays are as long as the loop's [MaxIters(n)] says, or as Slang concluded. Two things are amended.
//     - Loops inside each other: `FixedArray<FixedArray<double, inner>, outer>` is indexed [inner][outer], which is the wrong
//       element as soon as the two lengths differ (shader-slang/slang issue 13000). The indices of all accesses to such a
//       field, which have the same order, are reversed.
//     - A longer loop writes behind the array. It ends where the room does on the CPU, and with checks on a GPU, and says so:
//       `for(;TSL_ITERATE(file, line, _pc_0, (&_S22)->value5_0);)`, file and line as in TSL_AT. A loop that keeps nothing may
//       run as long as it likes, and has right gradients.
//   Slang's names are unique in the whole text, those of fields too, but loops that follow each other may share a counter.
// `files`: of add_statement_lines. Counts loops and accesses. Throws RefusedText.
int bound_loops(Code& code, const std::vector<std::string>& files);

}  // namespace torch_slang
