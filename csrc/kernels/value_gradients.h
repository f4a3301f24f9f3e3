// The gradients of values (scalars, vectors, matrices) that a launch sums over its threads: a part for each block or wave
// (Note [value gradients] in prelude/abi.h), and then the sum of the parts. Parts take the place of atomics: the sum is the
// same in every run. Values of one size have their parts in one tensor, so one reduction sums them all.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/launch.h"

namespace torch_slang {

class ValueGradients {
 public:
  explicit ValueGradients(const Arguments& arguments) : arguments_(arguments) {}

  // Before the launch: memory for the parts of these leaves, which the launch is told of. `shape`: as the device has it.
  void prepare(const std::vector<const Leaf*>& leaves, const LaunchShape& shape, LaunchMemory& memory);
  // After it: the sums in the order of the leaves, each in memory of its own.
  std::vector<at::Tensor> sums() const;

 private:
  struct Group {
    at::ScalarType type;
    int64_t components;
    std::vector<size_t> members;  // of the leaves
    at::Tensor parts;  // [members, samples, components, places]
  };
  Group& group_of(const Leaf& leaf);
  void make_parts(Group& group, uint64_t adders, LaunchMemory& memory);
  at::Tensor shaped(const at::Tensor& sum, const Leaf& leaf) const;

  const Arguments& arguments_;
  std::vector<const Leaf*> leaves_;
  std::vector<Group> groups_;
};

}  // namespace torch_slang
