// Fills the argument block for one call and launches its kernel on the arguments' device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <utility>

#include "kernels/arguments.h"
#include "kernels/thread_choices.h"
#include "operators/argument_block.h"
#include "operators/view_packing.h"
#include "specialise/kernel_table.h"
#include "specialise/virtual_threads.h"

namespace torch_slang {

class Launcher {
 public:
  // Numbers and dims are filled at once; views by the setters. All references must outlive this object.
  Launcher(const KernelSignature& op, KernelTable& kernels, OpKind kind, const Arguments& arguments,
           const Bound<int64_t>& bound);

  // Memory of a leaf: its values, or a view's gradient. Tensors need not be contiguous, and must outlive the launch. A
  // leaf that was given none is absent.
  void set_primal(int leaf, const at::Tensor& tensor);
  void set_gradient(int leaf, const at::Tensor& tensor);
  void set_tangent(int leaf, const at::Tensor& tensor);
  // `bytes`: that one sample has, of contiguous memory of all samples that the slot points to.
  void set_slot(int slot, uint64_t value, int64_t bytes = 0);
  // A tensor of a launch that the caller's memory stands for, and that is written without being a view of the kernel.
  void note_written(const at::Tensor& tensor);

  // The kernel for the arguments set so far; compiles at first need. `choose`: gives its virtual threads, by its key with those that
  // are likely to be fast. `launch`: the caller's, if the run-time does not choose it.
  using ChooseThreads = c10::function_ref<ChosenThreads(const KernelKey& key, const ThreadFacts& facts)>;
  std::shared_ptr<const LoadedKernel> kernel(const CallContext& context, ChooseThreads choose,
                                             const LaunchShape* launch = nullptr);

  // Threads as LaunchTotal says, blocks as BlockSize or the backend says; no blocks if there are no threads.
  LaunchShape shape(const Kernel& kernel) const;
  // Nothing is launched for no blocks. Views that had to be copied are copied back. Throws what the kernel's checks found.
  void launch(const Kernel& kernel, const LaunchShape& shape);
  // Whether an earlier backward of these types was seen to keep this leaf's gradient in registers.
  bool is_known_own(int leaf) const { return known_backward_ != nullptr && known_backward_->own[leaf]; }
  // The stream is being captured: nobody may wait for it.
  bool is_captured() const;

 private:
  void write_number(int leaf, const c10::IValue& value);
  void write_component(int slot, ElementType type, const c10::IValue& value, const Leaf& leaf);
  void write_value_tensor(const Leaf& leaf, const at::Tensor& tensor);
  void write_view(int view, int leaf, const at::Tensor& tensor, bool written);
  size_t sample_dims() const { return block_.samples().sizes.size(); }
  unsigned size_of_dim(const DeviceDim& dim) const;
  bool rows_are_vectors() const;
  at::Tensor packed_copy(const at::Tensor& given) const;
  void write_absent_sizes(int view, int leaf);
  ViewCut cut_of(int leaf) const;
  void note(const LaunchShape& shape) const;
  LaunchShape shape(const Sizes<int64_t>& total, uint32_t preferred_block) const;
  ThreadFacts thread_facts(const KernelKey& key, const LaunchShape* launch) const;
  bool wraps_around(const LaunchShape* launch) const;
  bool views_are_independent() const;
  std::shared_ptr<const LoadedKernel> kernel_of_block(KernelKey key, const CallContext& context,
                                                      const LaunchShape& launch) const;
  std::optional<OpKind> likely_backward(const CallContext& context) const;
  void prefetch_backward(KernelKey key, OpKind kind, const LaunchShape* launch) const;
  void check_copies() const;

  const KernelSignature& op_;
  KernelTable& kernels_;
  const OpKind kind_;
  const Arguments& arguments_;
  const Bound<int64_t>& bound_;
  const std::string& name_;
  std::shared_ptr<const LoadedKernel> loaded_;
  bool is_measured_ = false;  // its virtual threads were chosen by measurement
  c10::SmallVector<uint64_t, 16> bytes_;  // of each view
  std::shared_ptr<const LoadedKernel> known_backward_;  // what an earlier backward of these types has shown
  uint64_t strided_ = 0;  // as in KernelKey
  bool fits_vectors_ = true;  // views that could be moved in vectors lie so that they can
  ArgumentBlock block_;
  c10::SmallVector<at::Tensor, 4> kept_;  // copies that the block points into
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> copied_;  // (caller's tensor, copy that the kernel writes)
  c10::SmallVector<std::pair<at::Tensor, bool>, 8>
      launch_views_;  // what a launch op gives, and whether it may be written
};

}  // namespace torch_slang
