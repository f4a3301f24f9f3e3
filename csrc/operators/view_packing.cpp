#include "operators/view_packing.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace torch_slang {

namespace {

constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();

// CUDA's vector types of 2 and 4 components are aligned to their size (up to 16 bytes); a row of a matrix likewise. The
// size of a generic vector is that of the tensor's last dimension.
int64_t element_alignment(const at::Tensor& tensor, size_t element_rank) {
  const auto item_size = static_cast<int64_t>(tensor.element_size());
  const int64_t row = element_rank == 0 ? 1 : tensor.size(-1);
  return row == 2 || row == 4 ? std::min<int64_t>(row * item_size, 16) : item_size;
}

bool element_is_packed(const at::Tensor& tensor, size_t element_rank) {
  int64_t expected = 1;
  for (int64_t i = tensor.dim() - 1; i >= tensor.dim() - static_cast<int64_t>(element_rank); --i) {
    if (tensor.size(i) != 1 && tensor.stride(i) != expected) return false;
    expected *= tensor.size(i);
  }
  return true;
}

struct Flattened {
  int64_t size = 1;
  int64_t stride = 0;  // in items
};

// One dimension in place of those from `first` up to `end`; empty if their strides do not follow each other.
std::optional<Flattened> flatten_leading(const at::Tensor& tensor, size_t first, size_t end) {
  Flattened result;
  bool started = false;
  for (size_t i = end; i-- > first;) {
    const int64_t size = tensor.sizes()[i];
    if (size == 1) continue;
    if (!started) {
      result.stride = tensor.strides()[i];
      started = true;
    } else if (size != 0 && result.size != 0 && tensor.strides()[i] != result.stride * result.size) {
      return std::nullopt;
    }
    result.size *= size;
  }
  return result;
}

}  // namespace

c10::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::Float16: return c10::kHalf;
    case ElementType::BFloat16: return c10::kBFloat16;
    case ElementType::Float32: return c10::kFloat;
    case ElementType::Float64: return c10::kDouble;
    case ElementType::Int8: return c10::kChar;
    case ElementType::Int16: return c10::kShort;
    case ElementType::Int32: return c10::kInt;
    case ElementType::Int64: return c10::kLong;
    case ElementType::UInt8: return c10::kByte;
    case ElementType::UInt16: return c10::kUInt16;
    case ElementType::UInt32: return c10::kUInt32;
    case ElementType::UInt64: return c10::kUInt64;
    case ElementType::Bool: return c10::kBool;
  }
  TORCH_INTERNAL_ASSERT(false, "unknown element type");
}

std::optional<ElementType> element_type_of(c10::ScalarType type) {
  switch (type) {
    case c10::kHalf: return ElementType::Float16;
    case c10::kBFloat16: return ElementType::BFloat16;
    case c10::kFloat: return ElementType::Float32;
    case c10::kDouble: return ElementType::Float64;
    case c10::kChar: return ElementType::Int8;
    case c10::kShort: return ElementType::Int16;
    case c10::kInt: return ElementType::Int32;
    case c10::kLong: return ElementType::Int64;
    case c10::kByte: return ElementType::UInt8;
    case c10::kUInt16: return ElementType::UInt16;
    case c10::kUInt32: return ElementType::UInt32;
    case c10::kUInt64: return ElementType::UInt64;
    case c10::kBool: return ElementType::Bool;
    default: return std::nullopt;
  }
}

// torch's own answer is "too hard" for tensors with gaps, even of different storages.
bool may_overlap(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) && at::get_overlap_status(a, b) != at::MemOverlapStatus::No;
}

void check_visible_rank(const std::string& op, const Leaf& leaf, size_t rank, c10::SymIntArrayRef shape) {
  TORCH_CHECK(rank <= kTslMaxDims, op, ": ", leaf.name, " has ", rank, " dimensions, but kernels see at most ",
              static_cast<int>(kTslMaxDims), ": shape ", shape);
}

void check_visible_size(const std::string& op, const Leaf& leaf, size_t dimension, int64_t size) {
  TORCH_CHECK(size <= kMaxSize, op, ": ", leaf.name, " is too large: kernels index with uint, but dimension ",
              dimension, " (as the kernel sees it) has ", size, " elements");
}

bool begins_at_vector(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % uintptr_t{kVectorBytes} == 0;
}

bool VisibleView::steps_are_vectors() const {
  return std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step % kVectorBytes == 0; });
}

std::optional<VisibleView> make_view(const std::string& op, const Leaf& leaf, const ViewCut& cut,
                                     const at::Tensor& tensor) {
  const size_t outer = tensor.dim() - cut.element;  // dimensions before the element
  const size_t first = cut.samples;
  const size_t leading = cut.flatten ? outer - cut.fixed : first;
  const size_t rank = cut.flatten ? cut.fixed + 1 : outer - first;
  if (rank > kTslMaxDims) check_visible_rank(op, leaf, rank, tensor.sym_sizes().slice(first));
  const int64_t item_size = tensor.element_size();
  VisibleView result;
  TslView& view = result.view;
  view.data = static_cast<unsigned char*>(tensor.data_ptr());
  view.dimensionCount = static_cast<unsigned>(rank);
  if (!element_is_packed(tensor, cut.element)) return std::nullopt;

  int64_t sizes[kTslMaxDims] = {};
  int64_t strides[kTslMaxDims] = {};
  size_t at = 0;
  if (cut.flatten) {
    const auto flat = flatten_leading(tensor, first, leading);
    if (!flat) return std::nullopt;
    sizes[0] = flat->size;
    strides[0] = flat->stride;
    at = 1;
  }
  for (size_t i = leading; i < outer; ++i, ++at) {
    sizes[at] = tensor.sizes()[i];
    strides[at] = tensor.strides()[i];
  }

  int64_t expected = item_size;
  for (size_t i = 0; i < cut.element; ++i) expected *= tensor.sizes()[outer + i];
  const int64_t alignment = element_alignment(tensor, cut.element);
  bool aligned = reinterpret_cast<uintptr_t>(view.data) % alignment == 0;
  for (size_t i = 0; i < first; ++i) {
    result.steps.push_back(tensor.sizes()[i] <= 1 ? 0 : tensor.strides()[i] * item_size);
    aligned &= result.steps.back() % alignment == 0;
  }
  result.dense = true;
  for (size_t i = rank; i-- > 0;) {
    check_visible_size(op, leaf, i, sizes[i]);
    const int64_t stride = sizes[i] <= 1 ? expected : strides[i] * item_size;
    result.dense &= stride == expected;
    aligned &= stride % alignment == 0;
    view.sizes[i] = static_cast<unsigned>(sizes[i]);
    view.strides[i] = stride;
    expected *= sizes[i];
  }
  for (size_t i = rank; i < kTslMaxDims; ++i) {
    view.sizes[i] = 0;
    view.strides[i] = 0;
  }
  if (!aligned && tensor.numel() != 0) return std::nullopt;
  return result;
}

}  // namespace torch_slang
