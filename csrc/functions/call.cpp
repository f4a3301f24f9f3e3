#include "functions/call.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "gradients/gathered_gradient.h"
#include "gradients/gradient_sums.h"
#include "operators/element_types.h"
#include "operators/new_tensor.h"
#include "operators/view_packing.h"
#include "specialise/virtual_threads.h"

namespace torch_slang {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();

// The element's own dimensions are contiguous.
bool element_is_packed(const at::Tensor& tensor, size_t rank) {
  int64_t expected = 1;
  for (int64_t i = tensor.dim() - 1; i >= tensor.dim() - static_cast<int64_t>(rank); --i) {
    if (tensor.size(i) != 1 && tensor.stride(i) != expected) return false;
    expected *= tensor.size(i);
  }
  return true;
}

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t ElementwiseCall::Tiles::row_parts() const {
  return int64_t{columns} * std::max<int64_t>(1, (1 << width_log2) / 32);
}
int64_t ElementwiseCall::Tiles::column_parts() const { return divided_up(rows, rows_at_once() * rows_each); }

ElementwiseCall::ElementwiseCall(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments,
                                 c10::IntArrayRef shape)
    : op_(op),
      kind_(kind),
      arguments_(arguments),
      shape_(shape),
      block_(op.layout),
      whole_(op, kind, arguments, block_) {
  for (const int64_t n : shape) total_ *= n;
  variant_.leaves.resize(op.function.leaves.size());
}

size_t ElementwiseCall::outer_rank(int leaf, const at::Tensor& tensor) const {
  return tensor.dim() - op_.function.leaves[leaf].element.shape.size();
}

// Zero in dimensions that the tensor lacks or has one element in.
Strides ElementwiseCall::strides_in_shape(int leaf, const at::Tensor& tensor, c10::IntArrayRef strides) const {
  Strides result(shape_.size(), 0);
  const size_t outer = outer_rank(leaf, tensor);
  for (size_t d = 0; d < outer; ++d) {
    if (tensor.sizes()[d] != 1) result[shape_.size() - outer + d] = strides[d] * tensor.element_size();
  }
  return result;
}

MapView::Access ElementwiseCall::classify(Source& source) const {
  const at::Tensor& tensor = source.tensor;
  const size_t outer = outer_rank(source.leaf, tensor);
  if (outer == shape_.size() && tensor.sizes().slice(0, outer) == shape_ && tensor.is_contiguous()) {
    return total_ == 1 ? Access::Scalar : Access::Dense;
  }
  source.strides = strides_in_shape(source.leaf, tensor, tensor.strides());
  const bool moves = std::any_of(source.strides.begin(), source.strides.end(), [](int64_t s) { return s != 0; });
  return moves ? Access::Strided : Access::Scalar;
}

void ElementwiseCall::load(int leaf, const at::Tensor& given) {
  if (op_.function.leaves[leaf].is_whole) return whole_.see(leaf);
  Source source{leaf, given.is_neg() ? given.resolve_neg() : given, Access::Dense, {}};
  if (!element_is_packed(source.tensor, op_.function.leaves[leaf].element.shape.size())) {
    source.tensor = source.tensor.contiguous();
  }
  source.access = classify(source);
  sources_.push_back(std::move(source));
}

void ElementwiseCall::make(int leaf, const c10::IValue& list) {
  const Leaf& self = op_.function.leaves[leaf];
  const Generated generated = read_generated(op_.qualified(kind_), self, list);
  variant_.set(leaf, arguments_.type_of(self), generated.access);
  int slot = self.slot;
  std::vector<uint64_t> slots = generated.slots();
  for (const uint64_t word : slots) block_.set_slot(slot++, word);
  if (generated.access == Access::Place && kind_ == OpKind::Backward)
    places_.push_back({leaf, arguments_.type_of(self), std::move(slots)});
}

void ElementwiseCall::store(int leaf, const at::Tensor& tensor) {
  variant_.set(leaf, *element_type_of(tensor.scalar_type()), Access::Dense);
  tensor.mutable_data_ptr();  // its own from here on: a lazy clone shares its memory until it is written
  stored_.emplace_back(leaf, tensor);
}

void ElementwiseCall::store_value(int leaf, const at::Tensor& tensor) {
  variant_.leaves[leaf].gradient = Gradient::Value;
  stored_.emplace_back(leaf, tensor);
}

// Which sums a partly broadcast gradient has is known once dimensions are joined.
ElementwiseCall::Wanted ElementwiseCall::classify_gradient(int leaf) const {
  const at::Tensor& tensor = arguments_.tensors[leaf];
  const size_t outer = outer_rank(leaf, tensor);
  const int64_t count = c10::multiply_integers(tensor.sizes().slice(0, outer));
  if (count == 1 && (total_ != 1 || tensor.device() != arguments_.device)) return {leaf, Gradient::Summed, {}, {}};
  if (count == total_) return {leaf, Gradient::Whole, {}, {}};
  c10::SmallVector<int64_t, 8> dense(tensor.dim());
  int64_t stride = 1;
  for (size_t d = tensor.dim(); d-- > 0;) {
    dense[d] = stride;
    stride *= tensor.sizes()[d];
  }
  return {leaf, Gradient::Wide, strides_in_shape(leaf, tensor, dense), {}};
}

void ElementwiseCall::want(int leaf) {
  if (op_.function.leaves[leaf].is_whole) return whole_.want(leaf);
  wanted_.push_back(classify_gradient(leaf));
}

// Where a tensor is neither contiguous nor one element, or a GPU can sum rows or columns as it goes.
bool ElementwiseCall::needs_rows() const {
  const bool strided =
      std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.access == Access::Strided; });
  return strided || (arguments_.device.is_cuda() && std::any_of(wanted_.begin(), wanted_.end(), [](const Wanted& one) {
                       return one.kind == Gradient::Wide;
                     }));
}

// Rows and columns for tensors that are not simply contiguous. Dense ones take part: one kind of loop for all. Scalars, and
// gradients that are whole or one sum, fit any dimensions.
void ElementwiseCall::join_dimensions_of_all() {
  c10::SmallVector<Strides, 8> strides;
  c10::SmallVector<size_t, 8> owners;
  for (size_t s = 0; s < sources_.size(); ++s) {
    Source& source = sources_[s];
    if (source.access == Access::Scalar) continue;
    if (source.access == Access::Dense) {
      source.strides = strides_in_shape(source.leaf, source.tensor, source.tensor.strides());
    }
    strides.push_back(source.strides);
    owners.push_back(s);
  }
  for (size_t w = 0; w < wanted_.size(); ++w) {
    if (wanted_[w].kind != Gradient::Wide) continue;
    strides.push_back(wanted_[w].strides);
    owners.push_back(sources_.size() + w);
  }
  loop_ = join_dimensions(shape_, strides);
  c10::SmallVector<Strides, 8> joined(sources_.size() + wanted_.size());
  for (size_t i = 0; i < owners.size(); ++i) joined[owners[i]] = std::move(loop_.strides[i]);
  loop_.strides = std::move(joined);
}

void ElementwiseCall::use_copies() {
  for (Source& source : sources_) {
    if (source.access != Access::Strided) continue;
    c10::SmallVector<int64_t, 8> sizes(shape_.begin(), shape_.end());
    for (const int64_t n : arguments_.element_shape(op_.function.leaves[source.leaf])) sizes.push_back(n);
    source.tensor = source.tensor.expand(sizes).contiguous();
    source.access = Access::Dense;
  }
  for (Wanted& one : wanted_) one.strides.assign(shape_.size(), 0);  // Wide ones are summed afterwards
}

void ElementwiseCall::classify_rows() {
  for (size_t s = 0; s < sources_.size(); ++s) {
    Source& source = sources_[s];
    if (source.access == Access::Scalar) continue;
    const int64_t stride = loop_.strides[s].back();
    const auto components = arguments_.components(op_.function.leaves[source.leaf]);
    const bool follows = stride == components * static_cast<int64_t>(source.tensor.element_size());
    source.access = stride == 0 ? Access::Column : follows ? Access::Row : Access::Strided;
  }
  if (!arguments_.device.is_cuda()) return;
  for (size_t w = 0; w < wanted_.size(); ++w) {
    if (wanted_[w].kind != Gradient::Wide) continue;
    const Strides& own = loop_.strides[sources_.size() + w];
    const bool same_rows = std::all_of(own.begin(), own.end() - 1, [](int64_t stride) { return stride == 0; });
    if (own.back() == 0 && !same_rows) wanted_[w].kind = Gradient::RowSum;
    if (own.back() != 0 && same_rows) wanted_[w].kind = Gradient::ColumnSum;
  }
}

void ElementwiseCall::tile() {
  join_dimensions_of_all();
  if (loop_.sizes.size() > kTslMaxDims) {
    use_copies();
    join_dimensions_of_all();
  }
  classify_rows();
}

int64_t ElementwiseCall::numbers_of_an_element() const {
  int64_t numbers = 0;
  const auto add = [&](int leaf) { numbers += arguments_.components(op_.function.leaves[leaf]); };
  for (const Source& source : sources_) add(source.leaf);
  for (const Wanted& one : wanted_) add(one.leaf);
  for (const auto& [leaf, tensor] : stored_) add(leaf);
  return numbers;
}

// As many elements as fill a vector or more, where every tensor moved in vectors begins at a multiple of one. Where the function
// takes whole tensors, neighbours are likely to read nearby elements: then each element has a thread of its own in one wave.
int ElementwiseCall::choose_lanes() const {
  if (!arguments_.device.is_cuda() || whole_.any()) return 1;
  int64_t most = 1;
  const auto is_aligned = [&](int leaf, const at::Tensor& tensor) {
    const auto components = arguments_.components(op_.function.leaves[leaf]);
    most = std::max(most, components * static_cast<int64_t>(tensor.element_size()));
    return begins_at_vector(tensor);
  };
  for (size_t s = 0; s < sources_.size(); ++s) {
    const Source& source = sources_[s];
    if (source.access != Access::Dense && source.access != Access::Row) continue;
    if (!is_aligned(source.leaf, source.tensor)) return 1;
    if (source.access == Access::Dense) continue;
    const Strides& strides = loop_.strides[s];
    if (std::any_of(strides.begin(), strides.end() - 1, [](int64_t stride) { return stride % kVectorBytes != 0; }))
      return 1;
  }
  for (const auto& [leaf, tensor] : stored_) {
    if (!is_aligned(leaf, tensor)) return 1;
  }
  int lanes = most <= 2 ? 8 : most <= 16 ? 4 : most <= 32 ? 2 : 1;
  // Two computations in one loop spill registers sooner: a formula of three float3 took twice its time with four lanes.
  constexpr int64_t kMostNumbers = 128;  // that a thread loads and stores
  if ((kind_ == OpKind::Backward && !stored_.empty()) || op_.function.has_values) {
    while (lanes > 1 && lanes * numbers_of_an_element() > kMostNumbers) lanes /= 2;
  }
  while (is_tiled_ && loop_.columns() % lanes != 0) lanes /= 2;
  return lanes;
}

KernelKey ElementwiseCall::key() {
  for (const Source& source : sources_) {
    variant_.set(source.leaf, *element_type_of(source.tensor.scalar_type()), source.access);
  }
  for (const Wanted& one : wanted_) variant_.leaves[one.leaf].gradient = one.kind;
  whole_.note(places_, total_, variant_);
  variant_.is_tiled = is_tiled_;
  variant_.lanes = choose_lanes();
  KernelKey key = {};
  key.kind = kind_;
  key.independent = whole_.are_independent();
  key.device = arguments_.device;
  key.types = arguments_.types;
  key.sizes = arguments_.sizes;
  key.variant = variant_;
  const bool may_sum = whole_.any() && key.device.is_cuda();
  key.threads.adds_apart = may_sum && (is_deterministic() || wave_sums_setting() == WaveSums::Never ||
                                       !arguments_.have_addition_targets(op_.function, op_.layout.view_count()));
  return key;
}

// Columns of a tile: as many as a block has threads, or as a row needs. For sums of columns only as many as a wave has, since
// the threads below each other add up what they have: together with the rows that each thread takes, this makes those sums
// few.
void ElementwiseCall::choose_tiles() {
  constexpr uint32_t kRowsEach = 4, kMostRowsEach = 256;
  const int64_t columns = loop_.columns();
  const int64_t vectors = divided_up(columns, variant_.lanes);
  tiles_.rows = total_ / columns;
  const bool has_column_sums =
      std::any_of(wanted_.begin(), wanted_.end(), [](const Wanted& one) { return one.kind == Gradient::ColumnSum; });
  const bool has_sums = has_column_sums || whole_.has_few();
  const uint32_t widest = has_column_sums ? 5 : 8;
  while (tiles_.width_log2 < widest && (int64_t{1} << tiles_.width_log2) < vectors) ++tiles_.width_log2;
  tiles_.columns = static_cast<uint32_t>(divided_up(vectors, int64_t{1} << tiles_.width_log2));
  const int64_t enough = 2 * int64_t{kernel_->kernel->resident_blocks()};
  const int64_t tile_rows = std::max<int64_t>(1, enough / tiles_.columns);
  const int64_t rows_each = divided_up(tiles_.rows, tiles_.rows_at_once() * tile_rows);
  tiles_.rows_each = static_cast<uint32_t>(std::clamp<int64_t>(rows_each, 1, has_sums ? kMostRowsEach : kRowsEach));
  blocks_ = tiles_.columns * divided_up(tiles_.rows, tiles_.rows_at_once() * tiles_.rows_each);
  TORCH_CHECK(blocks_ <= std::numeric_limits<int32_t>::max(), op_.qualified(kind_), ": ", total_,
              " elements are too many where strides matter: pass contiguous tensors");
}

std::vector<int64_t> ElementwiseCall::memory_shape(const Wanted& wanted) const {
  std::vector<int64_t> sizes;
  switch (wanted.kind) {
    case Gradient::Summed: sizes = {blocks_}; break;
    case Gradient::RowSum: sizes = {tiles_.rows, tiles_.row_parts()}; break;
    case Gradient::ColumnSum: sizes = {tiles_.column_parts(), loop_.columns()}; break;
    default: sizes.assign(shape_.begin(), shape_.end());
  }
  for (const int64_t n : arguments_.element_shape(op_.function.leaves[wanted.leaf])) sizes.push_back(n);
  return sizes;
}

void ElementwiseCall::allocate() {
  for (Wanted& one : wanted_) {
    const at::Tensor& tensor = arguments_.tensors[one.leaf];
    if (one.kind == Gradient::Whole) {
      one.memory = new_empty(tensor.sizes(), tensor.options());
    } else {
      const ElementType type = *element_type_of(tensor.scalar_type());
      one.memory = new_empty(memory_shape(one), summing_options(type, arguments_.device));
    }
  }
}

// What the parts add up to, summed over the dimensions in which the argument was broadcast.
at::Tensor ElementwiseCall::gradient(int leaf) const {
  if (op_.function.leaves[leaf].is_whole) return whole_.gradient(leaf);
  const auto wanted = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& one) { return one.leaf == leaf; });
  const at::Tensor& tensor = arguments_.tensors[leaf];
  at::Tensor sum = wanted->memory;
  const auto element = arguments_.element_shape(op_.function.leaves[leaf]);
  const size_t rows = shape_.size() - loop_.row_dims;
  std::vector<int64_t> sizes(shape_.begin(), shape_.end());
  switch (wanted->kind) {
    case Gradient::Summed: sum = summed(sum, 0).view(tensor.sizes()); break;
    case Gradient::RowSum:
      std::fill(sizes.begin() + static_cast<int64_t>(rows), sizes.end(), 1);
      sizes.insert(sizes.end(), element.begin(), element.end());
      sum = at::sum_to(sum.sum(1).view(sizes), tensor.sizes());
      break;
    case Gradient::ColumnSum:
      std::fill(sizes.begin(), sizes.begin() + static_cast<int64_t>(rows), 1);
      sizes.insert(sizes.end(), element.begin(), element.end());
      sum = at::sum_to(summed(sum, 0).view(sizes), tensor.sizes());
      break;
    case Gradient::Wide: sum = at::sum_to(sum, tensor.sizes()); break;
    default: break;
  }
  return like_argument(sum, tensor);
}

void ElementwiseCall::choose_blocks() {
  if (is_tiled_ && arguments_.device.is_cuda()) return choose_tiles();
  const bool has_sums = whole_.has_few() || std::any_of(wanted_.begin(), wanted_.end(),
                                                        [](const Wanted& one) { return one.kind == Gradient::Summed; });
  const int64_t each = arguments_.device.is_cuda() ? int64_t{kMapThreads} * variant_.lanes : int64_t{kMapElements};
  const int64_t most = has_sums ? kernel_->kernel->resident_blocks() : std::numeric_limits<uint32_t>::max();
  blocks_ = std::min({divided_up(total_, each), most, int64_t{std::numeric_limits<int32_t>::max()}});
}

void ElementwiseCall::run(FindKernel find) {
  is_tiled_ = needs_rows();
  if (is_tiled_) tile();
  kernel_ = find(key());
  choose_blocks();
  allocate();
  whole_.prepare(*kernel_, places_, total_);
  write_block();
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(blocks_);
  shape.block[0] = arguments_.device.is_cuda() ? kMapThreads : 1;
  kernel_->last.threads.store(static_cast<uint64_t>(total_), std::memory_order_relaxed);
  // The loop over elements is not the user's, so its threads are nobody's concern.
  FaultRecord faults(op_, kind_, arguments_, /*names_threads=*/false);
  block_.launch(*kernel_->kernel, shape, faults);
  faults.check();
  whole_.finish();
}

void ElementwiseCall::write_source(const Source& source, const Strides* strides) {
  const Leaf& leaf = op_.function.leaves[source.leaf];
  if (source.tensor.device() != arguments_.device) return block_.set_components(leaf.slot, source.tensor);
  const int view = leaf.is_output ? leaf.diff_view : leaf.primal_view;
  block_.set_memory(view, source.tensor);
  if (strides != nullptr) block_.set_strides(view, *strides);
}

void ElementwiseCall::write_dims() {
  const auto set = [&](int dim, int64_t value) { block_.set_dim(dim, static_cast<uint32_t>(value)); };
  const auto set_long = [&](int dim, int64_t value) {
    set(dim, value & kMaxSize);
    set(dim + 1, value >> 32);
  };
  set_long(kTslMapTotal, total_);
  if (!is_tiled_) return;
  set(kTslMapRank, static_cast<int64_t>(loop_.sizes.size()));
  for (size_t d = 0; d < loop_.sizes.size(); ++d) {
    TORCH_CHECK(loop_.sizes[d] <= kMaxSize, op_.qualified(kind_), ": a dimension of ", loop_.sizes[d],
                " elements is too large where strides matter: pass contiguous tensors");
    set(kTslMapSizes + static_cast<int>(d), loop_.sizes[d]);
  }
  set_long(kTslMapRows, tiles_.rows);
  set(kTslMapWidth, tiles_.width_log2);
  set(kTslMapColumns, tiles_.columns);
  set(kTslMapRowsEach, tiles_.rows_each);
}

void ElementwiseCall::write_block() {
  for (size_t s = 0; s < sources_.size(); ++s) {
    const bool moves = is_tiled_ && sources_[s].access != Access::Scalar;
    write_source(sources_[s], moves ? &loop_.strides[s] : nullptr);
  }
  for (const auto& [leaf, tensor] : stored_) block_.set_memory(op_.function.leaves[leaf].primal_view, tensor);
  for (const Wanted& one : wanted_) block_.set_memory(op_.function.leaves[one.leaf].diff_view, one.memory);
  write_dims();
}

}  // namespace torch_slang
