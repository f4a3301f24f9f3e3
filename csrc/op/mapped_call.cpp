#include "op/mapped_call.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "op/specialize.h"
#include "op/view_packing.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;

constexpr int64_t kWordBytes = 16;
constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();

int64_t component_count(const Leaf& leaf, const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t n : leaf.element.shape) count *= n < 0 ? sizes[-1 - n] : n;
  return count;
}

// The element's own dimensions are contiguous.
bool element_is_packed(const at::Tensor& tensor, size_t rank) {
  int64_t expected = 1;
  for (int64_t i = tensor.dim() - 1; i >= tensor.dim() - static_cast<int64_t>(rank); --i) {
    if (tensor.size(i) != 1 && tensor.stride(i) != expected) return false;
    expected *= tensor.size(i);
  }
  return true;
}

}  // namespace

MapLoop map_loop(const Operator& op, OpKind kind, const MappedVariant& variant, const std::vector<int64_t>& sizes) {
  MapLoop loop;
  loop.lanes = variant.lanes();
  const bool backward = kind == OpKind::Backward;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    const int components = static_cast<int>(component_count(leaf, sizes));
    if (variant.has(i)) {
      const bool is_loaded = backward || !leaf.is_output;
      MapView view{leaf.is_output && backward ? leaf.diff_view : leaf.primal_view, leaf.slot, variant.type(i), components,
                   variant.access(i)};
      (is_loaded ? loop.inputs : loop.outputs).push_back(view);
    }
    if (variant.gradient(i) == MappedVariant::Unwanted) continue;
    const bool is_sum = variant.gradient(i) == MappedVariant::Summed;
    const bool is_wide = is_sum || variant.gradient(i) == MappedVariant::Wide;
    loop.outputs.push_back({leaf.diff_view, -1, is_wide ? summing_type(variant.type(i)) : variant.type(i), components,
                            is_sum ? Access::Summed : Access::Dense});
  }
  return loop;
}

MappedCall::MappedCall(const Operator& op, OpKind kind, const MappedArguments& arguments, c10::IntArrayRef shape)
    : op_(op), kind_(kind), arguments_(arguments), shape_(shape), variant_(op.function.leaves.size()) {
  for (const int64_t n : shape) total_ *= n;
  block_.resize(op.layout.size());
  std::memset(block_.data(), 0, block_.size());
}

void MappedCall::write(size_t offset, const void* data, size_t size) { std::memcpy(block_.data() + offset, data, size); }

// How the loop reaches the tensor's elements; their strides where it may need them.
Access MappedCall::classify(Source& source) const {
  const at::Tensor& tensor = source.tensor;
  const size_t outer = tensor.dim() - op_.function.leaves[source.leaf].element.shape.size();
  const auto sizes = tensor.sizes();
  if (outer == shape_.size() && sizes.slice(0, outer) == shape_ && tensor.is_contiguous()) {
    return total_ == 1 ? Access::Scalar : Access::Dense;
  }
  source.strides.assign(shape_.size(), 0);
  bool moves = false;
  for (size_t d = 0; d < outer; ++d) {
    if (sizes[d] == 1) continue;
    const int64_t stride = tensor.strides()[d] * tensor.element_size();
    source.strides[shape_.size() - outer + d] = stride;
    moves |= stride != 0;
  }
  return moves ? Access::Strided : Access::Scalar;
}

void MappedCall::load(int leaf, const at::Tensor& given) {
  Source source{leaf, given.is_neg() ? given.resolve_neg() : given, Access::Dense, {}};
  if (!element_is_packed(source.tensor, op_.function.leaves[leaf].element.shape.size())) {
    source.tensor = source.tensor.contiguous();
  }
  source.access = classify(source);
  sources_.push_back(std::move(source));
}

void MappedCall::store(int leaf, const at::Tensor& tensor) {
  variant_.set(leaf, *element_type_of(tensor.scalar_type()), Access::Dense);
  stored_.emplace_back(leaf, tensor);
}

void MappedCall::want(int leaf, MappedVariant::Gradient kind) {
  variant_.set_gradient(leaf, kind);
  has_sums_ |= kind == MappedVariant::Summed;
}

// Neighbouring dimensions become one where every strided tensor goes on evenly from one to the next.
void MappedCall::collapse() {
  loop_sizes_.clear();
  loop_strides_.assign(sources_.size(), {});
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 1) continue;
    bool joins = !loop_sizes_.empty() && loop_sizes_.back() * shape_[d] <= kMaxSize;
    for (size_t s = 0; joins && s < sources_.size(); ++s) {
      if (sources_[s].access == Access::Strided) {
        joins = loop_strides_[s].back() == sources_[s].strides[d] * shape_[d];
      }
    }
    if (!joins) loop_sizes_.push_back(1);
    loop_sizes_.back() *= shape_[d];
    for (size_t s = 0; s < sources_.size(); ++s) {
      if (sources_[s].access != Access::Strided) continue;
      if (!joins) loop_strides_[s].push_back(0);
      loop_strides_[s].back() = sources_[s].strides[d];
    }
  }
}

void MappedCall::use_copies() {
  for (Source& source : sources_) {
    if (source.access != Access::Strided) continue;
    const Leaf& leaf = op_.function.leaves[source.leaf];
    c10::SmallVector<int64_t, 8> sizes(shape_.begin(), shape_.end());
    for (const int64_t n : arguments_.element_shape(leaf)) sizes.push_back(n);
    source.tensor = source.tensor.expand(sizes).contiguous();
    source.access = Access::Dense;
  }
}

// As many elements as fill a word or more, where all that is dense begins at a multiple of a word.
int MappedCall::choose_lanes() const {
  if (!arguments_.device.is_cuda()) return 1;
  int64_t most = 1;
  const auto look = [&](int leaf, const at::Tensor& tensor) {
    const auto components = component_count(op_.function.leaves[leaf], arguments_.sizes);
    most = std::max(most, components * static_cast<int64_t>(tensor.element_size()));
    return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kWordBytes == 0;
  };
  for (const Source& source : sources_) {
    if (source.access == Access::Strided) return 1;
    if (source.access == Access::Dense && !look(source.leaf, source.tensor)) return 1;
  }
  for (const auto& [leaf, tensor] : stored_) {
    if (!look(leaf, tensor)) return 1;
  }
  return most <= 2 ? 8 : most <= 16 ? 4 : most <= 32 ? 2 : 1;
}

void MappedCall::prepare() {
  bool strided = false;
  for (const Source& source : sources_) strided |= source.access == Access::Strided;
  if (strided) {
    // One variant for whatever strides: dense tensors have some too.
    for (Source& source : sources_) {
      if (source.access != Access::Dense) continue;
      source.access = Access::Strided;
      source.strides.resize(shape_.size());
      for (size_t d = 0; d < shape_.size(); ++d) source.strides[d] = source.tensor.strides()[d] * source.tensor.element_size();
    }
    collapse();
    if (loop_sizes_.size() > kTslMaxDims) use_copies();
  }
  for (const Source& source : sources_) {
    variant_.set(source.leaf, *element_type_of(source.tensor.scalar_type()), source.access);
  }
  variant_.set_lanes(choose_lanes());
  kernel_ = op_.kernels.get(op_, {kind_, /*dense=*/true, /*independent=*/true, arguments_.device, arguments_.types,
                                  arguments_.sizes, variant_.text()});
  const int64_t elements = arguments_.device.is_cuda() ? int64_t{kMapThreads} * variant_.lanes() : int64_t{kMapElements};
  blocks_ = (total_ + elements - 1) / elements;
  if (has_sums_) blocks_ = std::min<int64_t>(blocks_, kernel_->kernel->resident_blocks());
  blocks_ = std::min<int64_t>(blocks_, std::numeric_limits<int32_t>::max());
}

void MappedCall::write_slots(const Leaf& leaf, const at::Tensor& tensor) {
  const at::Tensor packed = tensor.contiguous();
  const auto* bytes = static_cast<const char*>(packed.const_data_ptr());
  const auto size = static_cast<size_t>(packed.element_size());
  for (int64_t c = 0; c < component_count(leaf, arguments_.sizes); ++c) {
    write(op_.layout.slot_offset(leaf.slot + static_cast<int>(c)), bytes + size * c, size);
  }
}

void MappedCall::write_view(int view, const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  write(op_.layout.view_offset(view) + offsetof(TslView, data), &data, sizeof data);
}

void MappedCall::write_source(const Source& source) {
  const Leaf& leaf = op_.function.leaves[source.leaf];
  if (source.tensor.device() != arguments_.device) return write_slots(leaf, source.tensor);
  const int view = leaf.is_output ? leaf.diff_view : leaf.primal_view;
  write_view(view, source.tensor);
  if (source.access != Access::Strided) return;
  const auto& strides = loop_strides_[&source - sources_.data()];
  for (size_t d = 0; d < strides.size(); ++d) {
    const long long bytes = strides[d];
    write(op_.layout.view_offset(view) + offsetof(TslView, strides) + sizeof bytes * d, &bytes, sizeof bytes);
  }
}

void MappedCall::write_dims() {
  const auto write_dim = [&](int dim, int64_t value) {
    const auto word = static_cast<uint32_t>(value);
    write(op_.layout.dim_offset(dim), &word, sizeof word);
  };
  write_dim(kTslMapTotal, total_ & kMaxSize);
  write_dim(kTslMapTotal + 1, total_ >> 32);
  const size_t rank = std::min<size_t>(loop_sizes_.size(), kTslMaxDims);
  write_dim(kTslMapRank, static_cast<int64_t>(rank));
  for (size_t d = 0; d < rank; ++d) {
    TORCH_CHECK(loop_sizes_[d] <= kMaxSize, op_.qualified(kind_), ": a dimension of ", loop_sizes_[d],
                " elements is too large where strides matter: pass contiguous tensors");
    write_dim(kTslMapSizes + static_cast<int>(d), loop_sizes_[d]);
  }
}

void MappedCall::set_gradient(int leaf, const at::Tensor& memory) {
  write_view(op_.function.leaves[leaf].diff_view, memory);
}

void MappedCall::launch() {
  for (const Source& source : sources_) write_source(source);
  for (const auto& [leaf, tensor] : stored_) write_view(op_.function.leaves[leaf].primal_view, tensor);
  write_dims();
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(blocks_);
  shape.block[0] = arguments_.device.is_cuda() ? kMapThreads : 1;
  TslHeader header = {};
  std::copy(std::begin(shape.grid), std::end(shape.grid), header.grid);
  std::copy(std::begin(shape.block), std::end(shape.block), header.block);
  write(0, &header, sizeof header);
  kernel_->kernel->launch(shape, block_.data(), block_.size());
}

}  // namespace torch_slang
