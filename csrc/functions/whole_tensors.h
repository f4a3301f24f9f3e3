// The tensors of a call that an elementwise function sees whole: Note [whole tensors] in program/program.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "functions/signature.h"
#include "gradients/gathered_gradient.h"
#include "operators/argument_block.h"
#include "operators/arguments.h"
#include "specialise/elementwise_variant.h"
#include "specialise/loaded_kernel.h"

namespace torch_slang {

class WholeTensors {
 public:
  // The referenced objects must outlive this one.
  WholeTensors(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments, ArgumentBlock& block)
      : op_(op), kind_(kind), arguments_(arguments), block_(block) {}

  // Puts the call's tensor for this leaf into the block.
  void see(int leaf);
  // Its gradient is wanted. For a tensor that the function stores to, the gradient is the rest of the given one.
  void want(int leaf) {
    if (!leaf_of(leaf).is_written()) wanted_.push_back({leaf, {}, {}});
  }
  // The gradient of a tensor's contents after the call. Stores take their elements' from a copy and leave zero behind.
  void give(int leaf, const at::Tensor& gradient);
  bool any() const { return !seen_.empty(); }

  // Whether no tensor that the function stores to shares memory with another argument, or with itself.
  bool are_independent() const;
  // How the kernel is to gather gradients, in a call of so many elements.
  void note(const std::vector<GeneratedPlaces>& places, int64_t elements, ElementwiseVariant& variant);
  // Whether threads keep sums of a tensor of few elements: before the launch.
  bool has_few() const { return has_few_; }

  // Before the launch: memory for gradients. Throws where PyTorch is to be deterministic and this launch would not be.
  void prepare(const LoadedKernel& loaded, const std::vector<GeneratedPlaces>& places, int64_t elements);
  // After it.
  void finish();
  // Of a leaf that was wanted, or given.
  at::Tensor gradient(int leaf) const;

 private:
  struct Wanted {
    int leaf;
    at::Tensor memory;
    std::optional<GatheredGradient> gathered;
    bool is_own = false;  // each of its elements is stored once at most,
    bool is_covered = false;  // and all are
  };
  const Leaf& leaf_of(int leaf) const { return op_.function.leaves[leaf]; }
  void check_own_memory(int leaf, const at::Tensor& tensor) const;
  at::Tensor copied(int leaf, const at::Tensor& given);
  void set_absent(int leaf);
  std::vector<int64_t> sizes_of(int leaf) const;  // of its elements
  void make_memory(Wanted& wanted, const GradientUse& use, uint64_t threads);

  const ElementwiseSignature& op_;
  const OpKind kind_;
  const Arguments& arguments_;
  ArgumentBlock& block_;
  c10::SmallVector<int, 4> seen_;
  c10::SmallVector<Wanted, 2> wanted_;
  bool has_few_ = false;
  c10::SmallVector<at::Tensor, 4> kept_;  // that the block points into
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2>
      copied_;  // (caller's tensor, copy that the function stores to)
};

}  // namespace torch_slang
