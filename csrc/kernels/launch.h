// One launch of a kernel, in phases that hand a value on: memory goes into the argument block (LaunchMemory), what lies there
// decides the kernel (ChosenKernel), which then runs on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/thread_choices.h"
#include "operators/argument_block.h"
#include "operators/view_packing.h"
#include "specialise/kernel_table.h"
#include "specialise/virtual_threads.h"

namespace torch_slang {

// A call whose arguments are read and checked.
struct BoundCall {
  const KernelSignature& op;
  const OpKind kind;
  const Arguments& arguments;
  const Bound<int64_t> bound;

  const std::string& name() const { return op.qualified(kind); }
};

struct ChosenKernel {
  std::shared_ptr<const LoadedKernel> loaded;
  bool is_measured = false;  // its virtual threads were chosen by measurement

  const Kernel& kernel() const { return *loaded->kernel; }
};

class LaunchMemory {
 public:
  // Numbers and dims are filled at once; views by the setters. `call` must outlive this object. `known_backward`: of a backward, what
  // an earlier one of these types has shown; or null.
  LaunchMemory(const BoundCall& call, std::shared_ptr<const LoadedKernel> known_backward);

  // Memory of a leaf: its values, or a view's gradient. Tensors need not be contiguous, and must outlive the launch. A
  // leaf that was given none is absent.
  void set_primal(int leaf, const at::Tensor& tensor);
  void set_gradient(int leaf, const at::Tensor& tensor);
  void set_tangent(int leaf, const at::Tensor& tensor);
  // `bytes`: that one sample has, of contiguous memory of all samples that the slot points to.
  void set_slot(int slot, uint64_t value, int64_t bytes = 0);
  // A tensor of a launch that the caller's memory stands for, and that is written without being a view of the kernel.
  void note_written(const at::Tensor& tensor);

  const BoundCall& call() const { return call_; }
  // The kernel's for what was set so far, without virtual threads.
  KernelKey key() const;
  // Whether views that could be moved in vectors lie so that they can, and contiguous memory for any leaf would.
  bool suits_vectors() const;
  // Whether an earlier backward of these types was seen to keep this leaf's gradient in registers.
  bool is_known_own(int leaf) const { return known_backward_ != nullptr && known_backward_->own[leaf]; }
  // The stream is being captured: nobody may wait for it.
  bool is_captured() const;

  // Nothing is launched for no blocks. Views that had to be copied are copied back. Throws what the kernel's checks found.
  void launch(const ChosenKernel& chosen, const LaunchShape& shape);

 private:
  void write_number(int leaf, const c10::IValue& value);
  void write_component(int slot, ElementType type, const c10::IValue& value, const Leaf& leaf);
  void write_value_tensor(const ValueLeaf& value, const at::Tensor& tensor);
  void write_view(int view, int leaf, const at::Tensor& tensor, bool written);
  size_t sample_dims() const { return block_.samples().sizes.size(); }
  unsigned size_of_dim(const DeviceDim& dim) const;
  at::Tensor packed_copy(const at::Tensor& given) const;
  void write_absent_sizes(int view, int leaf);
  ViewCut cut_of(int leaf) const;
  bool views_are_independent() const;
  void check_copies() const;
  void note(const ChosenKernel& chosen, const LaunchShape& shape) const;

  const BoundCall& call_;
  const KernelSignature& op_;
  const Arguments& arguments_;
  const std::shared_ptr<const LoadedKernel> known_backward_;
  ArgumentBlock block_;
  c10::SmallVector<uint64_t, 16> bytes_;  // of each view
  uint64_t strided_ = 0;  // as in KernelKey
  bool fits_vectors_ = true;
  c10::SmallVector<at::Tensor, 4> kept_;  // copies that the block points into
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> copied_;  // (caller's tensor, copy that the kernel writes)
  c10::SmallVector<std::pair<at::Tensor, bool>, 8>
      launch_views_;  // what a launch op gives, and whether it may be written
};

// The kernel for the memory set so far; compiles at first need. `choose`: gives its virtual threads, by its key with those that
// are likely to be fast. `launch`: the caller's, or null if the run-time chooses it.
using ChooseThreads = c10::function_ref<ChosenThreads(const KernelKey& key, const ThreadFacts& facts)>;
ChosenKernel choose_kernel(const LaunchMemory& memory, KernelTable& kernels, const CallContext& context,
                           ChooseThreads choose, const LaunchShape* launch);

// Threads as LaunchTotal says, blocks as BlockSize or the backend says; no blocks if there are no threads.
LaunchShape launch_shape(const BoundCall& call, const Kernel& kernel);

}  // namespace torch_slang
