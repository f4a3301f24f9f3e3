// One level of torch.vmap, for the batching rules of products.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace torch_slang::product {

struct VmapOperand {
  at::Tensor tensor;  // with the mapped dimension in front
  bool is_mapped;

  // With a dimension of this size in front in any case.
  at::Tensor expanded(const c10::SymInt& size) const {
    if (is_mapped) return tensor;
    c10::SymDimVector sizes{size};
    sizes.append(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
    return tensor.unsqueeze(0).expand_symint(sizes);
  }
};

// The innermost level. While it lives, calls go to the levels below. A rule is called too where the level maps over none of its
// operands, but an outer one over some.
class VmapLevel {
 public:
  VmapLevel() : number_(at::functorch::maybeCurrentDynamicLayer().value().layerId()) {}

  VmapOperand in_front(const at::Tensor& tensor) const {
    const auto [value, dimension] = at::functorch::unwrapTensorAtLevel(tensor, number_);
    return {dimension ? value.movedim(*dimension, 0) : value, dimension.has_value()};
  }
  at::Tensor result(const at::Tensor& tensor) const { return at::functorch::makeBatched(tensor, 0, number_); }

 private:
  const int64_t number_;
  const c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::FuncTorchBatched};
};

}  // namespace torch_slang::product
