// The memory that a backward adds gradients to, and the reductions once the kernel is through: the `.after()` of
// the gradient views.
//
// Note [gradient memory]
//   Wanted gradients are added to; unwanted ones have no memory and no stores. A kernel takes the gradient of each output
//   element that it stores and leaves zero behind. Where threads touch nothing but their own elements (Note [own elements]
//   in prelude/own.h) gradients are kept in registers: memory of a wanted gradient is stored whole and need not be zero,
//   and the memory of an output's gradient is only read. Else the leaf's accumulation decides which memory there is:
//     atomic      that of the gradient itself
//     replicated  N copies of it, zeros at first; afterwards their sum
//     recorded    N pairs of index and value a thread, whatever the thread used; afterwards they are added up where they
//                 belong, by atomics, or sorted if PyTorch is to be deterministic. Additions for which there was no pair
//                 went to memory of the gradient's own size.
//   Replicas and recorded values are float for float16 and bfloat16, and rounded once. A view that the kernel takes from
//   (an output) has plain memory of that type however it is declared: what a thread takes there, others have added.
//   The gradient of a value is added up in parts: value_gradients.h.
//   Everything is enqueued on the stream of the launch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "gradients/gathered_gradient.h"
#include "kernels/launch.h"
#include "kernels/value_gradients.h"

namespace torch_slang {

class Gradients {
 public:
  // `memory` must outlive this object.
  explicit Gradients(LaunchMemory& memory);

  // The gradient of this leaf is wanted: it is added to `target`; without one to zeros, and take_result() gives it.
  void want(int leaf, const at::Tensor& target = {});
  // The gradient of an output: read as it is if the kernel does no more with it, else on a copy.
  void give(int leaf, const at::Tensor& gradient);
  // Copies what this kernel would write to. True if that calls for another kernel.
  bool copy_given(const LoadedKernel& loaded);

  // Before the launch: memory that depends on what the kernel does and on how many threads there are. Throws, before
  // anything runs, where PyTorch is to be deterministic and this launch would not be.
  void prepare(const LoadedKernel& loaded, const LaunchShape& shape);
  // After it.
  void finish();

  // On the device of the leaf's own tensor.
  at::Tensor take_result(int leaf);

 private:
  struct Item {
    int leaf = -1;
    bool is_given = false;
    bool is_own = false;  // registers hold it, and memory is stored or read plainly
    bool is_consumed = false;  // the kernel reads it and leaves zero behind: plain memory
    at::Tensor target;  // the caller's; undefined: result
    at::Tensor memory;  // what the kernel sees, of the type to add in
    GatheredGradient gathered;
    at::Tensor owners;  // debug mode
  };

  const Leaf& leaf_of(const Item& item) const { return op_.function.leaves[item.leaf]; }
  bool is_value(const Item& item) const { return leaf_of(item).is_value(); }
  bool in_private_memory(const Item& item) const;
  bool has_plain(const Item& item) const { return in_private_memory(item) && !item.is_own && item.is_consumed; }
  bool has_gathered(const Item& item) const { return in_private_memory(item) && !item.is_own && !item.is_consumed; }
  at::TensorOptions options_to_add_in(const Item& item) const;
  c10::IntArrayRef sizes_of(const Item& item) const;
  void check_alone(const Item& item) const;
  at::Tensor given_in_memory(const Item& item, const LoadedKernel& loaded) const;
  at::Tensor new_memory(const Item& item) const;
  void make_plain_memory(Item& item);
  at::Tensor sum_of_gathered(const Item& item) const;

  const KernelSignature& op_;
  const OpKind kind_;
  const Arguments& arguments_;
  LaunchMemory& memory_;
  ValueGradients values_;
  std::vector<Item> items_;
};

}  // namespace torch_slang
