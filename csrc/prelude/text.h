// The text of csrc/prelude/*.h (all but this file), embedded at build time, and how it is put together: source/source_text.h.
#pragma once

#include "common/embedded_text.h"

namespace torch_slang {

extern const EmbeddedText kPreludeText[];
extern const int kPreludeTextCount;

}  // namespace torch_slang
