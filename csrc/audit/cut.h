// A part of a call's tensors that is a call by itself, where the tensors are too large for an audit.
//
// Note [cut problems]
//   The names in a kernel's shapes (N), and the dimensions of tensors of which no shape is known, are halved, the largest first, until
//   few enough elements are left; each tensor keeps its beginning. An integer may index what was cut: it becomes the rest of a division by
//   the least size that was cut. What reads beyond a tensor's end all the same is no audit, but an error: audits check indices. Parameters
//   that say a size stay as they are.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "operators/signature.h"

namespace torch_slang::audit {

// `values`: by leaf, None for outputs. The tensors of the result share their memory with these, but for the integers. Of a plain
// function the tensors that it sees whole are cut, the others are taken as they are. None where shapes do not allow it.
std::optional<std::vector<c10::IValue>> cut(const Signature& signature, const std::vector<c10::IValue>& values,
                                            int64_t most);

}  // namespace torch_slang::audit
