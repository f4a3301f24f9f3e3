// For `explain`: the compiled variants of a kernel, the optimisations made, and the reasons against others.
#pragma once

#include "kernels/signature.h"
#include "operators/kernel_facts.h"

namespace torch_slang {

// Where gradients need atomics, compiles once more to learn which statements are the cause.
KernelFacts facts_of(const KernelSignature& op, const KernelKey& key, const LoadedKernel& loaded);

}  // namespace torch_slang
