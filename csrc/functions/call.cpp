#include "functions/call.h"

#include <ATen/ExpandUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "functions/generated_arguments.h"
#include "gradients/gathered_gradient.h"
#include "operators/element_types.h"
#include "operators/new_tensor.h"
#include "operators/view_packing.h"
#include "specialise/virtual_threads.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;
using Gradient = ElementwiseVariant::Gradient;

constexpr int64_t kMaxSize = std::numeric_limits<uint32_t>::max();

std::vector<int64_t> memory_shape(const Operands& operands, const LoopPlan& loop, const LaunchPlan& launch,
                                  const Operands::Wanted& wanted) {
  std::vector<int64_t> sizes;
  switch (wanted.kind) {
    case Gradient::Summed: sizes = {launch.blocks}; break;
    case Gradient::RowSum: sizes = {launch.rows, launch.row_parts()}; break;
    case Gradient::ColumnSum: sizes = {launch.column_parts(), loop.shape.columns()}; break;
    default: sizes.assign(operands.shape.begin(), operands.shape.end());
  }
  for (const int64_t n : operands.arguments.element_shape(operands.op.function.leaves[wanted.leaf])) sizes.push_back(n);
  return sizes;
}

void allocate(Operands& operands, const LoopPlan& loop, const LaunchPlan& launch) {
  for (Operands::Wanted& one : operands.wanted) {
    const at::Tensor& tensor = operands.arguments.tensors[one.leaf];
    if (one.kind == Gradient::Whole) {
      one.memory = new_empty(tensor.sizes(), tensor.options());
    } else {
      const ElementType type = *element_type_of(tensor.scalar_type());
      const auto options = summing_options(type, operands.arguments.device);
      one.memory = new_empty(memory_shape(operands, loop, launch, one), options);
    }
  }
}

// What the parts add up to, summed over the dimensions in which the argument was broadcast.
at::Tensor gradient_of(const Operands& operands, const LoopPlan& loop, const Operands::Wanted& wanted) {
  const at::Tensor& tensor = operands.arguments.tensors[wanted.leaf];
  at::Tensor sum = wanted.memory;
  const auto element = operands.arguments.element_shape(operands.op.function.leaves[wanted.leaf]);
  const size_t rows = operands.shape.size() - loop.shape.row_dims;
  std::vector<int64_t> sizes(operands.shape.begin(), operands.shape.end());
  switch (wanted.kind) {
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

void write_source(const Operands& operands, const Operands::Source& source, const Strides* strides,
                  ArgumentBlock& block) {
  const Leaf& leaf = operands.op.function.leaves[source.leaf];
  if (source.tensor.device() != operands.arguments.device)
    return block.set_components(leaf.place().slot.value(), source.tensor);
  const int view = leaf.is_output ? *leaf.diff_view() : leaf.place().primal_view;
  block.set_memory(view, source.tensor);
  if (strides != nullptr) block.set_strides(view, *strides);
}

void write_dims(const Operands& operands, const LoopPlan& loop, const LaunchPlan& launch, ArgumentBlock& block) {
  const auto set = [&](int dim, int64_t value) { block.set_dim(dim, static_cast<uint32_t>(value)); };
  const auto set_long = [&](int dim, int64_t value) {
    set(dim, value & kMaxSize);
    set(dim + 1, value >> 32);
  };
  set_long(kTslMapTotal, operands.total);
  if (!loop.is_tiled) return;
  set(kTslMapRank, static_cast<int64_t>(loop.shape.sizes.size()));
  for (size_t d = 0; d < loop.shape.sizes.size(); ++d) {
    TORCH_CHECK(loop.shape.sizes[d] <= kMaxSize, operands.op.qualified(operands.kind), ": a dimension of ",
                loop.shape.sizes[d], " elements is too large where strides matter: pass contiguous tensors");
    set(kTslMapSizes + static_cast<int>(d), loop.shape.sizes[d]);
  }
  set_long(kTslMapRows, launch.rows);
  set(kTslMapWidth, launch.width_log2);
  set(kTslMapColumns, launch.columns);
  set(kTslMapRowsEach, launch.rows_each);
}

void write_block(const Operands& operands, const LoopPlan& loop, const LaunchPlan& launch, ArgumentBlock& block) {
  const auto& sources = operands.sources;
  for (size_t s = 0; s < sources.size(); ++s) {
    const bool moves = loop.is_tiled && sources[s].access != Access::Scalar;
    write_source(operands, sources[s], moves ? &loop.shape.strides[s] : nullptr, block);
  }
  for (const auto& [leaf, tensor] : operands.stored) block.set_memory(operands.leaf(leaf).place().primal_view, tensor);
  for (const Operands::Wanted& one : operands.wanted)
    block.set_memory(*operands.leaf(one.leaf).diff_view(), one.memory);
  write_dims(operands, loop, launch, block);
}

}  // namespace

ElementwiseCall::ElementwiseCall(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments,
                                 c10::IntArrayRef shape)
    : operands_(op, kind, arguments, shape), block_(op.layout), whole_(op, kind, arguments, block_) {}

void ElementwiseCall::load(int leaf, const at::Tensor& tensor) {
  if (operands_.leaf(leaf).is_whole()) return whole_.see(leaf);
  operands_.load(leaf, tensor);
}

void ElementwiseCall::make(int leaf, const c10::IValue& list) {
  const Leaf& self = operands_.leaf(leaf);
  const Generated generated = read_generated(operands_.op.qualified(operands_.kind), self, list);
  const ElementType type = operands_.arguments.type_of(self);
  operands_.variant.set(leaf, type, generated.access);
  int slot = self.place().slot.value();
  std::vector<uint64_t> slots = generated.slots();
  for (const uint64_t word : slots) block_.set_slot(slot++, word);
  if (generated.access == Access::Place && operands_.kind == OpKind::Backward)
    places_.push_back({leaf, type, std::move(slots)});
}

void ElementwiseCall::store(int leaf, const at::Tensor& tensor) {
  operands_.variant.set(leaf, *element_type_of(tensor.scalar_type()), Access::Dense);
  tensor.mutable_data_ptr();  // its own from here on: a lazy clone shares its memory until it is written
  operands_.stored.emplace_back(leaf, tensor);
}

void ElementwiseCall::store_value(int leaf, const at::Tensor& tensor) {
  operands_.variant.leaves[leaf].gradient = Gradient::Value;
  operands_.stored.emplace_back(leaf, tensor);
}

void ElementwiseCall::want(int leaf) {
  if (operands_.leaf(leaf).is_whole()) return whole_.want(leaf);
  operands_.want(leaf);
}

KernelKey ElementwiseCall::key(const LoopPlan& loop) {
  KernelKey key = {};
  key.variant = operands_.variant;
  for (const auto& source : operands_.sources) {
    key.variant.set(source.leaf, *element_type_of(source.tensor.scalar_type()), source.access);
  }
  for (const auto& one : operands_.wanted) key.variant.leaves[one.leaf].gradient = one.kind;
  whole_.note(places_, operands_.total, key.variant);
  key.variant.is_tiled = loop.is_tiled;
  key.variant.lanes = loop.lanes;
  key.kind = operands_.kind;
  key.independent = whole_.are_independent();
  const auto& op = operands_.op;
  const Arguments& arguments = operands_.arguments;
  key.device = arguments.device;
  key.types = arguments.types;
  key.sizes = arguments.sizes;
  const bool may_sum = whole_.any() && key.device.is_cuda();
  key.threads.adds_apart = may_sum && (is_deterministic() || wave_sums_setting() == WaveSums::Never ||
                                       !arguments.have_addition_targets(op.function, op.layout.view_count()));
  return key;
}

void ElementwiseCall::run(FindKernel find) {
  const LoopPlan loop = plan_loop(operands_, whole_.any());
  const std::shared_ptr<const LoadedKernel> loaded = find(key(loop));
  const Kernel& kernel = *loaded->kernel;
  const LaunchPlan launch = plan_launch(operands_, loop, kernel, whole_.has_few());
  allocate(operands_, loop, launch);
  whole_.prepare(*loaded, places_, operands_.total);
  write_block(operands_, loop, launch, block_);
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(launch.blocks);
  shape.block[0] = operands_.arguments.device.is_cuda() ? kMapThreads : 1;
  loaded->last.threads.store(static_cast<uint64_t>(operands_.total), std::memory_order_relaxed);
  // The loop over elements is not the user's, so its threads are nobody's concern.
  FaultRecord faults(operands_.op, operands_.kind, operands_.arguments, /*names_threads=*/false);
  block_.launch(kernel, shape, faults);
  faults.check();
  whole_.finish();
  for (auto& one : operands_.wanted) one.memory = gradient_of(operands_, loop, one);
}

at::Tensor ElementwiseCall::gradient(int leaf) const {
  if (operands_.leaf(leaf).is_whole()) return whole_.gradient(leaf);
  const auto& all = operands_.wanted;
  return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.leaf == leaf; })->memory;
}

}  // namespace torch_slang
