// One launch of a mapped function's loop: how each tensor is reached decides the kernel (its variant), and where it lies
// goes into the argument block. Note [map loops] in backend/backend.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>

#include "op/mapped.h"

namespace torch_slang {

// A variant as KernelKey holds it: for each leaf the letters of the type in memory, the access (MapView::Access) and the
// gradient's kind, then that of lanes.
class MappedVariant {
 public:
  enum Gradient : char {
    Unwanted = '-',
    Whole = 'd',   // of the broadcast shape, in the tensor's type
    Wide = 'w',    // the same, in the type that sums are kept in
    Summed = '+',  // of one element for all
  };
  explicit MappedVariant(size_t leaves) : text_(3 * leaves + 1, '-') {}
  explicit MappedVariant(std::string text) : text_(std::move(text)) {}

  const std::string& text() const { return text_; }
  bool has(size_t leaf) const { return text_[3 * leaf + 1] != '-'; }
  ElementType type(size_t leaf) const { return static_cast<ElementType>(text_[3 * leaf] - 'a'); }
  MapView::Access access(size_t leaf) const { return static_cast<MapView::Access>(text_[3 * leaf + 1]); }
  Gradient gradient(size_t leaf) const { return static_cast<Gradient>(text_[3 * leaf + 2]); }
  int lanes() const { return text_.back() - '0'; }

  void set(size_t leaf, ElementType type, MapView::Access access) {
    text_[3 * leaf] = static_cast<char>('a' + static_cast<int>(type));
    text_[3 * leaf + 1] = static_cast<char>(access);
  }
  void set_gradient(size_t leaf, Gradient kind) { text_[3 * leaf + 2] = kind; }
  void set_lanes(int lanes) { text_.back() = static_cast<char>('0' + lanes); }

 private:
  std::string text_;
};

// The loop of a variant: which views it loads and stores.
MapLoop map_loop(const Operator& op, OpKind kind, const MappedVariant& variant, const std::vector<int64_t>& sizes);

class MappedCall {
 public:
  // All references must outlive this object.
  MappedCall(const Operator& op, OpKind kind, const MappedArguments& arguments, c10::IntArrayRef shape);

  int64_t total() const { return total_; }
  // What an element's values are loaded from: an argument, or an output's gradient.
  void load(int leaf, const at::Tensor& tensor);
  // A contiguous tensor of the broadcast shape that takes an output.
  void store(int leaf, const at::Tensor& tensor);
  // A gradient is wanted; `kind` says how it is gathered. Its memory is given after `prepare`.
  void want(int leaf, MappedVariant::Gradient kind);

  // Finds or compiles the kernel, which decides how many rows sums have.
  void prepare();
  int64_t rows() const { return blocks_; }
  void set_gradient(int leaf, const at::Tensor& memory);
  void launch();

 private:
  struct Source {
    int leaf;
    at::Tensor tensor;
    MapView::Access access;
    c10::SmallVector<int64_t, 6> strides;  // in bytes, by dimension of the broadcast shape
  };
  MapView::Access classify(Source& source) const;
  void collapse();
  void use_copies();
  int choose_lanes() const;
  void write_view(int view, const at::Tensor& tensor);
  void write_source(const Source& source);
  void write_slots(const Leaf& leaf, const at::Tensor& tensor);
  void write_dims();
  void write(size_t offset, const void* data, size_t size);

  const Operator& op_;
  const OpKind kind_;
  const MappedArguments& arguments_;
  const c10::IntArrayRef shape_;
  int64_t total_ = 1;
  MappedVariant variant_;
  c10::SmallVector<Source, 8> sources_;
  c10::SmallVector<std::pair<int, at::Tensor>, 4> stored_;
  bool has_sums_ = false;
  c10::SmallVector<int64_t, 6> loop_sizes_;  // outermost first, where strides matter
  c10::SmallVector<c10::SmallVector<int64_t, 6>, 8> loop_strides_;  // by source
  std::shared_ptr<const LoadedKernel> kernel_;
  int64_t blocks_ = 0;
  c10::SmallVector<char, 1024> block_;
};

}  // namespace torch_slang
