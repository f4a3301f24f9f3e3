// The text of the Slang module `torch_slang` (the repository's folder slang/), built into torch-slangc.
#pragma once

#include "common/embedded_text.h"

namespace torch_slang {

extern const EmbeddedText kSlangLibrary[];
extern const int kSlangLibraryCount;

}  // namespace torch_slang
