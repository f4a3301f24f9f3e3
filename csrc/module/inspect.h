// Looking at what an operator compiles to, for tests and tools: no GPU is needed, and nothing is cached or loaded.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace torch_slang {

// The cubin of this kind of call for "sm_90", say. `types` by type parameter; `groups` of virtual threads along x, of `lanes`
// in words each. `block`: of a caller's launch, for which a kernel for any block has too many registers. `sample_dims`: of calls under
// torch.vmap. `wave_sums`: lanes sum what they add to the same elements.
std::string cubin_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                      const std::string& architecture, int groups = 1, int lanes = 1,
                      const std::array<uint32_t, 3>& block = {}, int sample_dims = 0, bool wave_sums = false);

// The text that NVRTC gets for this kind of call first, before the compiled code was examined.
std::string cuda_text_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                          bool wave_sums = false);

}  // namespace torch_slang
