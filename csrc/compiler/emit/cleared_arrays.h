// A pass: long arrays that Slang clears element by element are cleared as a whole.
#pragma once

#include "compiler/text/code.h"

namespace torch_slang {

// Note [cleared arrays]
//   What a loop under [MaxIters(1000)] keeps for its backward is arrays of 1002 elements, which Slang clears by lists:
//     Pixel_0 _S160 = { 0.0f, make_float3 (0.0f) };  FixedArray<Pixel_0, 1002> _S161 = { _S160, _S160, ... };
//   Compilers make a store of each field of each element, and most of their time goes into asking which store each load may see: the
//   backward of a soft rasteriser took g++ 26 s of a processor, and 1.4 s where `= {}` stands. Shorter lists stay as they are:
//   they cost little, and compilers may keep their elements in registers.
// Counts the arrays. To be applied behind add_statement_lines: TSL_AT tells statements of functions from tables.
int clear_arrays(Code& code);

}  // namespace torch_slang
