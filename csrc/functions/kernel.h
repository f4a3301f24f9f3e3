// The kernel of an elementwise function: the emitted text with a loop over elements around it (Note [map loops] in
// source/kernel_source.h).
#pragma once

#include <memory>

#include "backend/backend.h"
#include "functions/signature.h"
#include "specialise/kernel_key.h"
#include "specialise/loaded_kernel.h"
#include "specialise/view_use.h"

namespace torch_slang {

// By leaf: which of its owned dimensions' orders (ElementwiseVariant::owned_dim_orders) to try. Past the last: none.
using OwnTries = std::vector<size_t>;

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key, const OwnTries& tries);
// Whether the compiled code shows additions to elements that the thread does not own: then `tries` names the next order.
bool learn(const ElementwiseSignature& op, const KernelKey& key, const Marks& marks, OwnTries& tries);
OwnTries first_tries(const ElementwiseSignature& op);

// Throws CompileError.
std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key);

}  // namespace torch_slang
