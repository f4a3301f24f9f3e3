// A pass that refuses texts in which Slang assigns to an element and means a part of it. It changes nothing.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Slang 2026.12 forgets which part of an element a loop of the user's code assigns (`b[i].x = v`): its derivatives say
// `b[i] = v`, and read `b[i]` where they mean `b[i].x`. The types of the two sides differ then. Throws RefusedText, in place
// of the C++ compiler's words.
void refuse_lost_parts(const EmittedCode& code);

}  // namespace torch_slang
