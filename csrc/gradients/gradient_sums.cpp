#include "gradients/gradient_sums.h"

#include <ATen/ops/sum.h>

#include "operators/element_types.h"
#include "operators/view_packing.h"

namespace torch_slang {

at::TensorOptions summing_options(ElementType type, c10::Device device) {
  return at::TensorOptions().dtype(scalar_type(summing_type(type))).device(device);
}

at::Tensor summed(const at::Tensor& parts, int64_t dimension) {
  return parts.size(dimension) == 1 ? parts.squeeze(dimension) : parts.sum(dimension);
}

at::Tensor like_argument(const at::Tensor& gradient, const at::Tensor& argument) {
  return gradient.to(argument.device(), argument.scalar_type());
}

}  // namespace torch_slang
