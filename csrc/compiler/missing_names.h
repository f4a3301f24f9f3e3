// Names that Slang's text uses and never declares.
#pragma once

#include "compiler/emitted_code.h"

namespace torch_slang {

// Slang 2026.12 does not keep all indices of an element inside an element (`b[i][j] = v` in a branch) for its backward: the
// text then names a temporary, `_S<number>`, that stands nowhere. Throws RefusedText, in place of the C++ compiler's words.
void refuse_missing_names(const EmittedCode& code);

}  // namespace torch_slang
