// The schemas of an operator family, from its descriptor.
#pragma once

#include <memory>

#include "op/operator.h"

namespace torch_slang {

// Null if the kernel has no op of this kind (no output: only Launch; no derivative: no Backward).
std::unique_ptr<const OpSignature> make_signature(const Operator& op, OpKind kind);

}  // namespace torch_slang
