// Turns a kernel's signature and a key into the source for a backend: which views are there, and where their sizes come from.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "kernels/signature.h"
#include "specialise/kernel_key.h"

namespace torch_slang {

// Facts about a backward that are known before it is compiled.
struct KnownUse {
  std::vector<int> scratch_outputs = {};  // outputs that get memory (others are absent: stored values vanish)
  // By leaf, or empty: inputs whose values another variant was seen not to look at.
  std::vector<bool> unused = {};
  // By leaf, or empty: threads were seen to touch elements of this gradient that are not their own.
  std::vector<bool> shared = {};
  // By leaf, or empty: threads were seen to ask vectors for elements that only running tells (Note [vector accesses]).
  std::vector<bool> indirect = {};
};

KernelSource specialize(const KernelSignature& op, const KernelKey& key, const KnownUse& known);

// By leaf: gradients that this kernel keeps in registers (Note [own elements] in prelude/own.h).
std::vector<bool> own_leaves(const KernelSignature& op, const KernelKey& key, const KnownUse& known);

}  // namespace torch_slang
