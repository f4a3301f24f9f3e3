#include "kernels/sample_memory.h"

#include <c10/util/accumulate.h>

namespace torch_slang {
namespace {

bool is_shared_along(const at::Tensor& tensor, size_t d) { return tensor.size(d) == 1 || tensor.stride(d) == 0; }

}  // namespace

c10::SmallVector<int64_t, 2> sample_sizes(const Arguments& arguments) {
  c10::SmallVector<int64_t, 2> sizes;
  for (const c10::SymInt& size : arguments.samples) sizes.push_back(size.guard_int(__FILE__, __LINE__));
  return sizes;
}

int64_t sample_count(const Arguments& arguments) { return c10::multiply_integers(sample_sizes(arguments)); }

bool is_shared_by_samples(const at::Tensor& tensor, size_t dims) {
  for (size_t d = 0; d < dims; ++d) {
    if (!is_shared_along(tensor, d)) return false;
  }
  return true;
}

at::Tensor first_sample(const at::Tensor& tensor, size_t dims) {
  at::Tensor one = tensor;
  for (size_t d = 0; d < dims; ++d) one = one.select(0, 0);
  return one;
}

bool are_samples_contiguous(const at::Tensor& tensor, size_t dims) {
  int64_t expected = 1;
  for (size_t d = tensor.dim(); d-- > dims; expected *= tensor.size(d)) {
    if (tensor.size(d) != 1 && tensor.stride(d) != expected) return false;
  }
  return true;
}

at::Tensor packed_samples(const at::Tensor& tensor, size_t dims) {
  at::Tensor one = tensor;
  for (size_t d = 0; d < dims; ++d) {
    if (tensor.size(d) > 1 && is_shared_along(tensor, d)) one = one.narrow(d, 0, 1);
  }
  return one.clone(at::MemoryFormat::Contiguous).expand(tensor.sizes());
}

c10::SmallVector<int64_t, 2> steps_of(const at::Tensor& tensor, size_t dims) {
  c10::SmallVector<int64_t, 2> steps;
  for (size_t d = 0; d < dims; ++d) {
    steps.push_back(is_shared_along(tensor, d) ? 0 : tensor.stride(d) * tensor.element_size());
  }
  return steps;
}

}  // namespace torch_slang
