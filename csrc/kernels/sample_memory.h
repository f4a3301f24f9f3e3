// Tensors of calls under vmap: their first dimensions, `dims` many, are those of samples (Note [samples] in backend/samples.h). A
// stride of zero there says that samples share the memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "operators/arguments.h"

namespace torch_slang {

c10::SmallVector<int64_t, 2> sample_sizes(const Arguments& arguments);
int64_t sample_count(const Arguments& arguments);  // 1 of a call that is not under vmap

bool is_shared_by_samples(const at::Tensor& tensor, size_t dims);
// Of a tensor that samples share: one of them.
at::Tensor first_sample(const at::Tensor& tensor, size_t dims);
// Whether each sample is contiguous.
bool are_samples_contiguous(const at::Tensor& tensor, size_t dims);
// A copy whose samples are contiguous. What samples share is copied once.
at::Tensor packed_samples(const at::Tensor& tensor, size_t dims);
// From one sample to the next, in bytes.
c10::SmallVector<int64_t, 2> steps_of(const at::Tensor& tensor, size_t dims);

}  // namespace torch_slang
