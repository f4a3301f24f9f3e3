#include "functions/loop_plan.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "operators/element_types.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;
using Gradient = ElementwiseVariant::Gradient;

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

size_t outer_rank(const Leaf& leaf, const at::Tensor& tensor) { return tensor.dim() - leaf.element.shape.size(); }

}  // namespace

Operands::Operands(const ElementwiseSignature& op_, OpKind kind_, const Arguments& arguments_, c10::IntArrayRef shape_)
    : op(op_), kind(kind_), arguments(arguments_), shape(shape_) {
  for (const int64_t n : shape) total *= n;
  variant.leaves.resize(op.function.leaves.size());
}

bool Operands::any_wanted(Gradient sought) const {
  return std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& one) { return one.kind == sought; });
}

Strides Operands::strides_in_shape(int leaf, const at::Tensor& tensor, c10::IntArrayRef strides) const {
  Strides result(shape.size(), 0);
  const size_t outer = outer_rank(op.function.leaves[leaf], tensor);
  for (size_t d = 0; d < outer; ++d) {
    if (tensor.sizes()[d] != 1) result[shape.size() - outer + d] = strides[d] * tensor.element_size();
  }
  return result;
}

MapView::Access Operands::classify(Source& source) const {
  const at::Tensor& tensor = source.tensor;
  const size_t outer = outer_rank(op.function.leaves[source.leaf], tensor);
  if (outer == shape.size() && tensor.sizes().slice(0, outer) == shape && tensor.is_contiguous()) {
    return total == 1 ? Access::Scalar : Access::Dense;
  }
  source.strides = strides_in_shape(source.leaf, tensor, tensor.strides());
  const bool moves = std::any_of(source.strides.begin(), source.strides.end(), [](int64_t s) { return s != 0; });
  return moves ? Access::Strided : Access::Scalar;
}

void Operands::load(int index, const at::Tensor& given) {
  Source source{index, given.is_neg() ? given.resolve_neg() : given, Access::Dense, {}};
  if (!element_is_packed(source.tensor, leaf(index).element.shape.size())) source.tensor = source.tensor.contiguous();
  source.access = classify(source);
  sources.push_back(std::move(source));
}

// Which sums a partly broadcast gradient has is known once dimensions are joined.
void Operands::want(int leaf) {
  const at::Tensor& tensor = arguments.tensors[leaf];
  const size_t outer = outer_rank(op.function.leaves[leaf], tensor);
  const int64_t count = c10::multiply_integers(tensor.sizes().slice(0, outer));
  if (count == 1 && (total != 1 || tensor.device() != arguments.device))
    return wanted.push_back({leaf, Gradient::Summed, {}, {}});
  if (count == total) return wanted.push_back({leaf, Gradient::Whole, {}, {}});
  c10::SmallVector<int64_t, 8> dense(tensor.dim());
  int64_t stride = 1;
  for (size_t d = tensor.dim(); d-- > 0;) {
    dense[d] = stride;
    stride *= tensor.sizes()[d];
  }
  wanted.push_back({leaf, Gradient::Wide, strides_in_shape(leaf, tensor, dense), {}});
}

LoopShape join_dimensions(c10::IntArrayRef shape, c10::ArrayRef<Strides> strides) {
  constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();
  LoopShape loop;
  loop.strides.resize(strides.size());
  size_t row_start = 0;  // first dimension of `shape` in the row
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = !loop.sizes.empty() && loop.sizes.back() * shape[d] <= kMaxSize;
    for (size_t t = 0; joins && t < strides.size(); ++t) {
      joins = loop.strides[t].back() == strides[t][d] * shape[d];
    }
    if (!joins) {
      loop.sizes.push_back(1);
      for (auto& own : loop.strides) own.push_back(0);
      row_start = d;
    }
    loop.sizes.back() *= shape[d];
    for (size_t t = 0; t < strides.size(); ++t) loop.strides[t].back() = strides[t][d];
  }
  if (loop.sizes.empty()) {
    loop.sizes.push_back(1);
    for (auto& own : loop.strides) own.push_back(0);
  }
  loop.row_dims = shape.size() - row_start;
  return loop;
}

namespace {

// Where a tensor is neither contiguous nor one element, or a GPU can sum rows or columns as it goes.
bool needs_rows(const Operands& operands) {
  const auto& sources = operands.sources;
  return std::any_of(sources.begin(), sources.end(),
                     [](const Operands::Source& s) { return s.access == Access::Strided; }) ||
         (operands.arguments.device.is_cuda() && operands.any_wanted(Gradient::Wide));
}

// Rows and columns for tensors that are not simply contiguous. Dense ones take part: one kind of loop for all. Scalars, and
// gradients that are whole or one sum, fit any dimensions.
LoopShape join_dimensions_of_all(Operands& operands) {
  c10::SmallVector<Strides, 8> strides;
  c10::SmallVector<size_t, 8> owners;
  for (size_t s = 0; s < operands.sources.size(); ++s) {
    Operands::Source& source = operands.sources[s];
    if (source.access == Access::Scalar) continue;
    if (source.access == Access::Dense) {
      source.strides = operands.strides_in_shape(source.leaf, source.tensor, source.tensor.strides());
    }
    strides.push_back(source.strides);
    owners.push_back(s);
  }
  for (size_t w = 0; w < operands.wanted.size(); ++w) {
    if (operands.wanted[w].kind != Gradient::Wide) continue;
    strides.push_back(operands.wanted[w].strides);
    owners.push_back(operands.sources.size() + w);
  }
  LoopShape loop = join_dimensions(operands.shape, strides);
  c10::SmallVector<Strides, 8> joined(operands.sources.size() + operands.wanted.size());
  for (size_t i = 0; i < owners.size(); ++i) joined[owners[i]] = std::move(loop.strides[i]);
  loop.strides = std::move(joined);
  return loop;
}

void use_copies(Operands& operands) {
  for (Operands::Source& source : operands.sources) {
    if (source.access != Access::Strided) continue;
    c10::SmallVector<int64_t, 8> sizes(operands.shape.begin(), operands.shape.end());
    for (const int64_t n : operands.arguments.element_shape(operands.op.function.leaves[source.leaf]))
      sizes.push_back(n);
    source.tensor = source.tensor.expand(sizes).contiguous();
    source.access = Access::Dense;
  }
  for (Operands::Wanted& one : operands.wanted)
    one.strides.assign(operands.shape.size(), 0);  // Wide ones are summed afterwards
}

void classify_rows(Operands& operands, const LoopShape& shape) {
  for (size_t s = 0; s < operands.sources.size(); ++s) {
    Operands::Source& source = operands.sources[s];
    if (source.access == Access::Scalar) continue;
    const int64_t stride = shape.strides[s].back();
    const auto components = operands.arguments.components(operands.op.function.leaves[source.leaf]);
    const bool follows = stride == components * static_cast<int64_t>(source.tensor.element_size());
    source.access = stride == 0 ? Access::Column : follows ? Access::Row : Access::Strided;
  }
  if (!operands.arguments.device.is_cuda()) return;
  for (size_t w = 0; w < operands.wanted.size(); ++w) {
    if (operands.wanted[w].kind != Gradient::Wide) continue;
    const Strides& own = shape.strides[operands.sources.size() + w];
    const bool same_rows = std::all_of(own.begin(), own.end() - 1, [](int64_t stride) { return stride == 0; });
    if (own.back() == 0 && !same_rows) operands.wanted[w].kind = Gradient::RowSum;
    if (own.back() != 0 && same_rows) operands.wanted[w].kind = Gradient::ColumnSum;
  }
}

LoopShape tiled_shape(Operands& operands) {
  LoopShape shape = join_dimensions_of_all(operands);
  if (shape.sizes.size() > kTslMaxDims) {
    use_copies(operands);
    shape = join_dimensions_of_all(operands);
  }
  classify_rows(operands, shape);
  return shape;
}

// That are loaded and stored.
int64_t numbers_of_an_element(const Operands& operands) {
  int64_t numbers = 0;
  const auto add = [&](int leaf) { numbers += operands.arguments.components(operands.op.function.leaves[leaf]); };
  for (const Operands::Source& source : operands.sources) add(source.leaf);
  for (const Operands::Wanted& one : operands.wanted) add(one.leaf);
  for (const auto& [leaf, tensor] : operands.stored) add(leaf);
  return numbers;
}

// As many elements as fill a vector or more, where every tensor moved in vectors begins at a multiple of one. Where the function
// takes whole tensors, neighbours are likely to read nearby elements: then each element has a thread of its own in one wave.
int choose_lanes(const Operands& operands, const LoopPlan& plan, bool sees_tensors) {
  if (!operands.arguments.device.is_cuda() || sees_tensors) return 1;
  int64_t most = 1;
  const auto is_aligned = [&](int leaf, const at::Tensor& tensor) {
    const auto components = operands.arguments.components(operands.op.function.leaves[leaf]);
    most = std::max(most, components * static_cast<int64_t>(tensor.element_size()));
    return begins_at_vector(tensor);
  };
  for (size_t s = 0; s < operands.sources.size(); ++s) {
    const Operands::Source& source = operands.sources[s];
    if (source.access != Access::Dense && source.access != Access::Row) continue;
    if (!is_aligned(source.leaf, source.tensor)) return 1;
    if (source.access == Access::Dense) continue;
    const Strides& strides = plan.shape.strides[s];
    if (std::any_of(strides.begin(), strides.end() - 1, [](int64_t stride) { return stride % kVectorBytes != 0; }))
      return 1;
  }
  for (const auto& [leaf, tensor] : operands.stored) {
    if (!is_aligned(leaf, tensor)) return 1;
  }
  int lanes = most <= 2 ? 8 : most <= 16 ? 4 : most <= 32 ? 2 : 1;
  // Two computations in one loop spill registers sooner: a formula of three float3 took twice its time with four lanes.
  constexpr int64_t kMostNumbers = 128;  // that a thread loads and stores
  if ((operands.kind == OpKind::Backward && !operands.stored.empty()) || operands.op.function.has_values) {
    while (lanes > 1 && lanes * numbers_of_an_element(operands) > kMostNumbers) lanes /= 2;
  }
  while (plan.is_tiled && plan.shape.columns() % lanes != 0) lanes /= 2;
  return lanes;
}

// Columns of a tile: as many as a block has threads, or as a row needs. For sums of columns only as many as a wave has, since
// the threads below each other add up what they have: together with the rows that each thread takes, this makes those sums
// few.
LaunchPlan plan_tiles(const Operands& operands, const LoopPlan& loop, const Kernel& kernel, bool has_few) {
  LaunchPlan plan;
  constexpr uint32_t kRowsEach = 4, kMostRowsEach = 256;
  const int64_t columns = loop.shape.columns();
  const int64_t vectors = divided_up(columns, loop.lanes);
  plan.rows = operands.total / columns;
  const bool has_column_sums = operands.any_wanted(Gradient::ColumnSum);
  const bool has_sums = has_column_sums || has_few;
  const uint32_t widest = has_column_sums ? 5 : 8;
  while (plan.width_log2 < widest && (int64_t{1} << plan.width_log2) < vectors) ++plan.width_log2;
  plan.columns = static_cast<uint32_t>(divided_up(vectors, int64_t{1} << plan.width_log2));
  const int64_t enough = 2 * int64_t{kernel.resident_blocks()};
  const int64_t tile_rows = std::max<int64_t>(1, enough / plan.columns);
  const int64_t rows_each = divided_up(plan.rows, plan.rows_at_once() * tile_rows);
  plan.rows_each = static_cast<uint32_t>(std::clamp<int64_t>(rows_each, 1, has_sums ? kMostRowsEach : kRowsEach));
  plan.blocks = plan.columns * divided_up(plan.rows, plan.rows_at_once() * plan.rows_each);
  TORCH_CHECK(plan.blocks <= std::numeric_limits<int32_t>::max(), operands.op.qualified(operands.kind), ": ",
              operands.total, " elements are too many where strides matter: pass contiguous tensors");
  return plan;
}

}  // namespace

LoopPlan plan_loop(Operands& operands, bool sees_tensors) {
  LoopPlan plan;
  plan.is_tiled = needs_rows(operands);
  if (plan.is_tiled) plan.shape = tiled_shape(operands);
  plan.lanes = choose_lanes(operands, plan, sees_tensors);
  return plan;
}

LaunchPlan plan_launch(const Operands& operands, const LoopPlan& loop, const Kernel& kernel, bool has_few) {
  const bool is_cuda = operands.arguments.device.is_cuda();
  if (loop.is_tiled && is_cuda) return plan_tiles(operands, loop, kernel, has_few);
  const bool has_sums = has_few || operands.any_wanted(Gradient::Summed);
  const int64_t each = is_cuda ? int64_t{kMapThreads} * loop.lanes : int64_t{kMapElements};
  const int64_t most = has_sums ? kernel.resident_blocks() : std::numeric_limits<uint32_t>::max();
  LaunchPlan plan;
  plan.blocks = std::min({divided_up(operands.total, each), most, int64_t{std::numeric_limits<int32_t>::max()}});
  return plan;
}

int64_t LaunchPlan::row_parts() const { return int64_t{columns} * std::max<int64_t>(1, (1 << width_log2) / kWave); }
int64_t LaunchPlan::column_parts() const { return divided_up(rows, rows_at_once() * rows_each); }

}  // namespace torch_slang
