// The kernel of an elementwise function: the emitted text with a loop over elements around it (Note [map loops] in
// source/kernel_source.h).
#pragma once

#include <memory>

#include "backend/backend.h"
#include "kernel/kernel_key.h"
#include "kernel/learn.h"
#include "kernel/loaded_kernel.h"
#include "signature/elementwise_signature.h"

namespace torch_slang {

// Of each leaf's ways to own elements (ElementwiseVariant::ways_to_own), the one to try: behind the last, none.
using OwnTries = std::vector<size_t>;

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key, const OwnTries& tries);
// Whether the compiled code shows that a gradient has other elements added to: then it is compiled with the next way.
bool learn(const ElementwiseSignature& op, const KernelKey& key, const Marks& marks, OwnTries& tries);
OwnTries first_tries(const ElementwiseSignature& op);

// Throws CompileError.
std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key);

}  // namespace torch_slang
