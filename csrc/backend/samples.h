// The samples of a call under torch.vmap.
//
// Note [samples]
//   A call under vmap is one launch for all samples. Each sample sees the launch as if it stood alone: the grid, the sizes and
//   all values are the same for all. Only the pointers of the argument block differ, by so many bytes from one sample to the
//   next: a *step* of zero where all samples share the memory. Nested vmaps give several sample dimensions, each with steps of
//   its own. How many samples there are is in no kernel's key, so another number compiles nothing.
//   On the host whoever runs a block moves the pointers of a copy of the argument block, and the kernel is the same with and
//   without samples. On a GPU it is a variant of its own (KernelSource::sample_dims): the argument block ends in the steps, a
//   row of hardware blocks along y belongs to each sample, and a thread moves the pointers of its copy (prelude/samples.h).
//   Kernels that multiply matrices are launched once for each sample, since what fetches their tiles is encoded on the host.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_slang {

struct Samples {
  c10::SmallVector<uint32_t, 2> sizes;  // of the sample dimensions, outermost first
  // Where the pointers stand in the argument block: first those of the views, then those in slots.
  const std::vector<size_t>* offsets = nullptr;
  c10::SmallVector<int64_t, 16> steps;  // in bytes: [pointers, dimensions]

  uint64_t count() const;
};

// The same samples in as few dimensions as all steps allow, at least one.
Samples joined(const Samples& samples);

// Moves the pointers of a copy of the argument block to sample `number`, counted row by row.
void move_to_sample(const Samples& samples, uint64_t number, char* args);

}  // namespace torch_slang
