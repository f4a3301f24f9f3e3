// How the gradient of a view is gathered where each addition does not go to its own memory: in replicas, or as records of pairs.
// Note [gradient memory] in kernels/view_gradients.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <string>

#include "program/program.h"

namespace torch_slang {

// Sums are kept in float32 or better, and rounded once.
// Of memory for parts of the gradient of numbers of this type.
at::TensorOptions summing_options(ElementType type, c10::Device device);
// Over one dimension.
at::Tensor summed(const at::Tensor& parts, int64_t dimension);
// A gradient as its argument is: in its type, on its device.
at::Tensor like_argument(const at::Tensor& gradient, const at::Tensor& argument);

struct GatheredGradient {
  at::Tensor memory;  // that the kernel adds to, of a type to add in; replicas [N, ...]
  at::Tensor values, indices, overflow;  // recorded pairs: [samples, N, threads, ...]

  // What the kernel sees: of replicas the first.
  at::Tensor visible(const Leaf& leaf) const;
};

// `op`: its name, for messages. `components`: numbers in an element. `threads`: of the launch. `samples`: how many share out what
// `sizes` says, under vmap.
GatheredGradient new_gathered(const std::string& op, const Leaf& leaf, int64_t components, c10::IntArrayRef sizes,
                              const at::TensorOptions& options, uint64_t threads, int64_t samples = 1);

// The sum. `looks`: whether records that found no place are to be reported, for which the device must be waited for.
at::Tensor reduced(const std::string& op, const Leaf& leaf, int64_t components, const GatheredGradient& gathered,
                   bool looks);

// Note [gradient slots] in prelude/abi.h. `gathered`: null where all additions go to one memory. `owners`: may be undefined.
// `bytes`: of the memory that a slot points to, where each sample has its own part of it.
void set_gradient_slots(const Leaf& leaf, const GatheredGradient* gathered, const at::Tensor& owners,
                        c10::function_ref<void(int slot, uint64_t value, uint64_t bytes)> set);
// For what debug mode notes of `elements` elements.
at::Tensor new_owners(int64_t elements, c10::Device device);

bool is_deterministic();  // as PyTorch was asked to be
// Throws (or warns) where this launch would not be. `one_place`: all additions go to one memory.
void check_deterministic(const std::string& op, const Leaf& leaf, bool one_place, uint64_t threads);

}  // namespace torch_slang
