// Writes the argument block of one launch (prelude/abi.h), and launches with it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include "backend/backend.h"
#include "operators/faults.h"
#include "operators/layout.h"

namespace torch_slang {

class ArgumentBlock {
 public:
  // All zeros: views without memory. `layout` must outlive this object.
  explicit ArgumentBlock(const Layout& layout);

  void set_view(int view, const TslView& value);
  // Of a view whose sizes nobody asks for.
  void set_memory(int view, const at::Tensor& tensor);
  void set_strides(int view, c10::IntArrayRef bytes);

  void set_slot(int slot, uint64_t value);
  // A number in the component's own type; false if an integer does not fit.
  [[nodiscard]] bool set_number(int slot, ElementType type, const c10::IValue& value);
  // One slot for each element of a tensor on the host.
  void set_components(int slot, const at::Tensor& tensor);

  void set_dim(int dim, uint32_t value);
  uint32_t dim(int dim) const;

  // Of a call under vmap: the sizes of its sample dimensions, before any steps. A pointer without steps is the same for all samples.
  void set_samples(c10::IntArrayRef sizes);
  const Samples& samples() const { return samples_; }
  // In bytes, from one sample to the next, by sample dimension.
  void set_view_steps(int view, c10::ArrayRef<int64_t> steps) { set_steps(view, steps); }
  void set_slot_steps(int slot, c10::ArrayRef<int64_t> steps);

  // What checks find goes to `faults`.
  void launch(const Kernel& kernel, const LaunchShape& shape, FaultRecord& faults);

 private:
  void write(size_t offset, const void* data, size_t size);
  void set_steps(size_t pointer, c10::ArrayRef<int64_t> steps);

  const Layout& layout_;
  Samples samples_;
  c10::SmallVector<char, 1024> block_;
};

}  // namespace torch_slang
