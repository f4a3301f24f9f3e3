// The kernel of an elementwise function: the emitted text with a loop over elements around it (Note [map loops] in
// source/kernel_source.h).
#pragma once

#include <memory>

#include "backend/backend.h"
#include "kernel/kernel_key.h"
#include "kernel/loaded_kernel.h"
#include "signature/elementwise_signature.h"

namespace torch_slang {

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key);

// Throws CompileError.
std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key);

}  // namespace torch_slang
