// The loop of a plain function's kernel, as its variant says.
#pragma once

#include <vector>

#include "functions/signature.h"
#include "specialise/elementwise_variant.h"

namespace torch_slang {

// Whether threads may keep sums of the gradient of a tensor that is seen whole.
bool may_be_few(const Leaf& leaf);

// Of a call whose tensors are all contiguous, of the broadcast shape and of the declared types; every gradient is wanted.
// `few`: tensors that are seen whole have few numbers.
ElementwiseVariant dense_variant(const ElementwiseSignature& op, OpKind kind, const std::vector<ElementType>& types,
                                 bool few = false);

// The loop of a variant: which views it loads and stores.
MapLoop map_loop(const ElementwiseSignature& op, OpKind kind, const ElementwiseVariant& variant,
                 const std::vector<int64_t>& sizes);

}  // namespace torch_slang
