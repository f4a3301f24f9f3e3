// Derivatives that a source takes itself, by `fwd_diff(f)`, and that Slang has zeros for.
#pragma once

#include "compiler/source/session.h"
#include "compiler/text/code.h"

namespace torch_slang {

// Throws RefusedText if the emitted text has the forward derivative of an f that calls a function with a [BackwardDerivative] and
// no [ForwardDerivative]: to Slang the value is zero there, and so is the derivative.
void refuse_lost_forward_calls(const Code& emitted, Session& session);

}  // namespace torch_slang
