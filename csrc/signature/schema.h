// The schemas of an operator family, from its descriptor.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "signature/declaration.h"
#include "signature/op_signature.h"

namespace torch_slang {

// Null if the kernel has no op of this kind (no output: only Launch; no derivative: no Backward). A launch that would have the
// name of one of `kernels` has an underscore behind it.
std::unique_ptr<const OpSignature> make_signature(const Declaration& op, OpKind kind,
                                                  const std::set<std::string>& names);

}  // namespace torch_slang
