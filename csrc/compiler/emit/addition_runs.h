// A run is code with several additions to gradients, of which the first dominates all others and the last postdominates them. On a GPU
// the lanes of a wave sum all additions of a run at its end: Note [wave sums] in prelude/wave_sums.h.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Puts TSL_SUMS_BEGIN(numbers, starts); in front of the first addition of each run, and TSL_SUMS_END(numbers, starts); behind the
// last one: whoever comes to the one comes to the other, and makes all additions between them. Bit n of `starts`: the run's
// n-th number is the first of an element. A run of several functions lies in the outermost one. Returns how many runs there are.
// Additions that lie in none are right too; where there are any, runs begin with TSL_SUMS_BEGIN_BESIDE.
//
// Lanes that a loop's iteration leads around its run wait for the others where it ends. So there the run is summed, when all are
// together again:
//   for(;;) { { ... if (far) { TSL_SUMS_NEXT(tsl_sums_0); } TSL_SUMS_BEGIN(2, 3); ... TSL_SUMS_WAIT(); ... } TSL_SUMS_JOIN(tsl_sums_0, 2, 3); }
// TSL_SUMS_NEXT stands for `continue`. An iteration has one such run. Behind it no statement may leave the loop, and no function
// may be called that has runs of its own. Single numbers in the same iteration are added at once.
//
// Additions of the user's own (tsl_add_only) lie in runs as well, which then end with TSL_SUMS_END_SEEN, before anything that
// may read what they add to; they wait for nobody.
int write_addition_runs(EmittedCode& code);

}  // namespace torch_slang
