// A pass: uses without a definition, which Slang's text has. It restores the definition, or refuses the text.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Slang 2026.12 does not keep all that its backward needs: not all indices of an element inside an element (`b[i][j] = v` in
// a branch), nor what a loop's counter begins with where that is computed. The text then names a temporary, `_S<number>`,
// that stands nowhere. What loops begin with is put there (loop_beginnings.h). Else throws RefusedText, in place of the C++
// compiler's words.
void restore_missing_names(EmittedCode& code);

}  // namespace torch_slang
