// The exception of a pass that cannot make the emitted text right.
#pragma once

#include <string>

namespace torch_slang {

// Slang's text would give wrong numbers: a sentence that says why, and what to write.
struct RefusedText {
  std::string reason;
};

// A pass does not find what it has to change.
inline RefusedText unknown_text(const std::string& what) {
  return {"this version of Slang writes CUDA text in a form that torch_slang does not know: " + what};
}

}  // namespace torch_slang
