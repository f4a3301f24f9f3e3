// A pass: arrays that Slang begins with a long list of the same value are filled by a loop.
#pragma once

#include <string>

namespace torch_slang {

// Note [filled arrays]
//   What a loop under [MaxIters(1000)] keeps for its backward is arrays of 1002 elements, which Slang clears by lists:
//     FixedArray<Pixel_0, 1002> _S161 = { _S160, _S160, ... };
//   Compilers make a store of each field of each element, and most of their time goes into asking which store each load may see: the
//   backward of a soft rasteriser took g++ 26 s of a processor, and 1.4 s where `tsl_filled<FixedArray<Pixel_0, 1002> >(_S160)`
//   stands there. Short lists stay: their elements may become registers.
// Counts the arrays. To be applied behind add_statement_lines, whose marks tell statements of functions from tables.
int fill_arrays(std::string& body);

}  // namespace torch_slang
