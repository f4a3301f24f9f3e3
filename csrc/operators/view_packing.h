// From tensors to the views of the argument block.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>

#include "prelude/abi.h"
#include "program/program.h"

namespace torch_slang {

c10::ScalarType scalar_type(ElementType type);
std::optional<ElementType> element_type_of(c10::ScalarType type);  // empty for complex and quantized types

// What a tensor looks like to a kernel: leading dimensions flattened into one, the element inside the index.
struct VisibleView {
  TslView view;        // data included
  c10::SmallVector<int64_t, 2> steps;  // in bytes, from one sample to the next
  bool dense = false;  // the strides are those of a contiguous tensor of these sizes
  bool steps_are_vectors() const;
};

// How a leaf's tensors are cut into leading, visible and element dimensions.
struct ViewCut {
  size_t samples = 0;  // dimensions in front of all, of a call under vmap: a kernel sees one sample
  bool flatten = false;  // the Shape begins with "..."
  size_t fixed = 0;      // dimensions after the leading ones, element excluded; all of them if !flatten
  size_t element = 0;    // trailing element dimensions
};

// Whether an element of one may be an element of the other.
bool may_overlap(const at::Tensor& a, const at::Tensor& b);

// Throws, naming op and argument, for a rank that kernels cannot see, or a size that uint indices do not reach.
void check_visible_rank(const std::string& op, const Leaf& leaf, size_t rank, c10::SymIntArrayRef shape);
void check_visible_size(const std::string& op, const Leaf& leaf, size_t dimension, int64_t size);

// What a GPU thread moves at once, at most (Note [vector accesses] in prelude/vector_access.h), and whether the tensor begins at such an address.
constexpr int64_t kVectorBytes = 16;
bool begins_at_vector(const at::Tensor& tensor);

// Empty if the tensor's strides or alignment do not allow it: the caller then takes a contiguous copy, which always does.
// Throws, naming op and argument, beyond five visible dimensions or sizes that uint indices do not reach.
std::optional<VisibleView> make_view(const std::string& op, const Leaf& leaf, const ViewCut& cut,
                                     const at::Tensor& tensor);

}  // namespace torch_slang
