// Whether a text has forms alone that the passes know: before the first of them.
#pragma once

#include <string>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Where forms have to be known ones: in a text without derivatives nowhere, in one with them in what Slang made for those.
enum class Known { Nowhere, InDerivatives, Everywhere };

// Throws RefusedText where there is another form: Note [strict reading] in reader.h.
void refuse_unknown_forms(const EmittedCode& code, Known where);

// Throws RefusedText with the form at a token. `place`: the user's line of it, or nothing; `why`: a sentence without its end.
[[noreturn]] void refuse_form(const EmittedCode& code, size_t at, const std::string& place, const std::string& why);

}  // namespace torch_slang
