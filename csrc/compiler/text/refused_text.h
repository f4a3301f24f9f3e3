// The exception of a pass that cannot make the emitted text right.
#pragma once

#include <string>

namespace torch_slang {

// Slang's text would give wrong numbers: a sentence that says why, and what to write.
struct RefusedText {
  std::string reason;
};

}  // namespace torch_slang
