// Whether a text has forms alone that the passes know: before the first of them.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Where forms have to be known ones: in a text without derivatives nowhere, in one with them in what Slang made for those.
enum class Known { Nowhere, InDerivatives, Everywhere };

// Throws RefusedText where there is another form: Note [strict reading] in reader.h.
void refuse_unknown_forms(const EmittedCode& code, Known where);

}  // namespace torch_slang
