// A pass: emitted text computes for each wave operation the mask of the lanes that take part. Slang's own masks are wrong where a
// function returns early, in `switch`, and where an arm lost the ballot that its sibling still has; so they are computed anew.
#pragma once

#include <string>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Puts masks of our own in place of Slang's: Note [wave masks]. The text has the TSL_AT of add_statement_lines, which
// count `files`. Throws RefusedText.
// `scattered` becomes true if lanes of one wave operation may stand in several statements of the text. Counts ballots and masks.
int write_wave_masks(EmittedCode& code, const std::vector<std::string>& files, bool& scattered);

}  // namespace torch_slang
