// Whether a text has forms alone that the passes know: before the first of them.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Throws RefusedText where Slang's derivatives have another form (Note [strict reading] in reader.h); where anything has, if
// TORCH_SLANG_CHECK_TEXTS is on, as it is for the tests.
void refuse_unknown_forms(const EmittedCode& code, bool has_derivatives);

}  // namespace torch_slang
