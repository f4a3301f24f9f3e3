// Emitted text computes for each wave operation the mask of the lanes that take part. Slang's own masks are wrong where a
// function returns early, in `switch`, and where an arm lost the ballot that its sibling still has; so they are computed anew.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

struct MaskedText {
  std::string body;
  bool scattered = false;  // lanes of one wave operation may stand in several places of the text
};

// The text with masks of our own in place of Slang's: Note [wave masks]. It has the marks of with_statement_lines, which
// count `files`. Throws RefusedText.
MaskedText with_wave_masks(const std::string& body, const std::vector<std::string>& files);

}  // namespace torch_slang
